"""What an administrator asks of the channels of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core.effects import Answer
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.remote import TRANSMISSION
from mqlab.broker.server.rights import check_right

if TYPE_CHECKING:
    from mqlab.broker.server.asking import Question
    from mqlab.broker.server.broker import Broker

Said = dict[str, Any]


class ChannelQuestions:
    """The rights to a channel are those to its transmission queue; to add one takes the right to administer all."""

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
        user, found = self._connection.user, self._broker.channels.status()
        return {"channels": [one for one in found if user.may("read", _queue(one["to"]))]}

    def _add(self, question: Question) -> Said:
        """It lasts until the broker ends. The password comes with the question: no file of the broker's is read."""
        user = self._connection.user
        if not user.may("admin", "all"):
            raise RefusedError(f"{user.name} has no right to add a channel: that takes admin for all")
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
        self._check(question)
        self._broker.channels.of(question.text("to")).start()
        return {}

    def _stop(self, question: Question) -> None:
        """Answered when it has stopped."""
        self._check(question)
        channel, connection, number = self._broker.channels.of(question.text("to")), self._connection, question.number

        async def stop() -> None:
            await channel.stop()
            self._broker.core.effects.append(Answer(connection, number, {}))
            self._broker.carry_out()

        self._broker.keep(asyncio.ensure_future(stop()))

    def _check(self, question: Question) -> None:
        check_right(self._broker.core, self._connection.user, "admin", _queue(question.text("to")))


def _queue(to: str) -> str:
    return f"queue:{TRANSMISSION}{to}"
