"""A broker that says nothing any more, and does not answer when it is asked whether it is there."""

import asyncio

from mqlab.client.connection import Wire
from mqlab.client.errors import ClosedError, MessagingError


class Silence:
    """Ends a connection over which nothing came for so many seconds, though an answer was due."""

    def __init__(self, wire: Wire, seconds: float) -> None:
        self._wire = wire
        self._seconds = seconds
        self._asked: asyncio.Task[None] | None = None
        self._look_later()

    def _look_later(self) -> None:
        """Twice in that time: once to ask, once to hear the answer."""
        self._wire.loop.call_later(self._seconds / 2, self._look)

    def _look(self) -> None:
        wire = self._wire
        if not wire.is_open:
            return
        if wire.heard:
            wire.heard, self._asked = False, None
        elif self._asked is None:
            self._asked = wire.loop.create_task(self._ask())
        else:
            wire.lose(ClosedError(f"the broker did not answer within {self._seconds:g} s"))
            return
        self._look_later()

    async def _ask(self) -> None:
        try:
            await self._wire.question("ping")
        except MessagingError:
            """Whoever waits for something is told, too."""
