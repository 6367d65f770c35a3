"""Questions between messages: a protocol that confirms no message by itself still answers in order."""

from asyncio import Future
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from mqlab.drivers.common.timeouts import BLOCKED_TIMEOUT_S, with_timeout

_MARKS: Final = 4


class Marks:
    """`ask` asks the system something; its answer says that all messages sent before were taken."""

    def __init__(self, ask: "Callable[[], Future[Any]]") -> None:
        self._ask = ask
        # Sent since the last question; before each question since the one before it, with its answer.
        self._unmarked = 0
        self._open: deque[tuple[int, Future[Any]]] = deque()
        self._messages = 0

    def sent(self, messages: int) -> None:
        self._unmarked += messages
        self._messages += messages

    def mark(self) -> None:
        """Ask now, if anything was sent since."""
        if self._unmarked:
            self._open.append((self._unmarked, self._ask()))
            self._unmarked = 0

    async def few(self, most: int) -> None:
        """Returns when no more than so many questions are unanswered. Raises DriverError."""
        while len(self._open) > most:
            messages, answer = self._open[0]
            await with_timeout(answer, BLOCKED_TIMEOUT_S)
            self._open.popleft()
            self._messages -= messages

    async def taken(self, all_but: int = 0) -> None:
        """Returns when no more than so many messages are not known to be taken. Raises DriverError."""
        # A few times in what may be under way is enough: each question is one more thing that both sides do.
        if self._unmarked * _MARKS >= all_but:
            self.mark()
        while self._messages > all_but:
            await self.few(len(self._open) - 1)
