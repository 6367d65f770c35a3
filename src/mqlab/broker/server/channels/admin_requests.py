"""What an administrator asks of the channels of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import RefusedError

if TYPE_CHECKING:
    from mqlab.broker.server.broker import Broker
    from mqlab.broker.server.native.admin_requests import Question

Said = dict[str, Any]


class ChannelQuestions:
    def __init__(self, broker: Broker, connection: Any) -> None:
        self._broker = broker
        self._connection = connection
        self.answers: dict[str, Callable[[Question], Said | None]] = {
            "channels": self._list,
            "add_channel": self._add,
            "start_channel": self._start,
            "stop_channel": self._stop,
        }

    def _list(self, _question: Question) -> Said:
        return {"channels": self._connection.access.seen_channels(self._broker.channels.status())}

    def _add(self, question: Question) -> Said:
        """It lasts until the broker ends. The password comes with the question: no file of the broker's is read."""
        said = {key: question.said[key] for key in ("batch", "retry") if question.said.get(key) is not None}
        ca = question.optional("ca")
        try:
            settings = ChannelSettings(
                question.text("to"), question.text("address"), question.optional("user"),
                ca=Path(ca) if ca else None, **said,
            )  # fmt: skip
        except ChannelError as error:
            raise RefusedError(str(error)) from None
        self._broker.channels.add(settings, question.optional("password"))
        return {}

    def _start(self, question: Question) -> Said:
        self._broker.channels.of(question.text("to")).start()
        return {}

    def _stop(self, question: Question) -> None:
        """Answered when it has stopped."""
        channel, connection, number = self._broker.channels.of(question.text("to")), self._connection, question.number

        async def stop() -> None:
            await channel.stop()
            self._broker.core.effects.append(Answer(connection, number, {}))
            self._broker.carry_out()

        self._broker.keep(asyncio.ensure_future(stop()))
