"""Questions of a client that are not about messages: rare ones, so in JSON, each answered by its number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core import admin
from mqlab.broker.core.durability.records import Commit
from mqlab.broker.core.effects import Answer, Continue
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.model.sessions import Session
from mqlab.broker.server.access import AccessDeniedError, owner_name
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.trace.stanzas import StanzaError, level_from

JsonObject = dict[str, Any]

_ENDED: Final = object()


class AdminRequest(NamedTuple):
    said: JsonObject
    number: int
    session: Session | None

    def text(self, key: str) -> str:
        value = self.said.get(key)
        if not isinstance(value, str) or not value:
            raise RefusedError(f"the question needs {key}")
        return value

    def optional(self, key: str) -> str:
        return self.text(key) if self.said.get(key) else ""


class AdminRequestHandler:
    """Answers one connection's questions. An answer of None comes later, as an effect."""

    def __init__(self, broker: Broker, connection: Any) -> None:
        self._broker = broker
        self._core = broker.core
        self._connection = connection
        self._answers: dict[str, Callable[[AdminRequest], JsonObject | None]] = {
            "ping": self._ping,
            "status": self._status,
            "temporary": self._temporary,
            "delete_temporary": self._delete_temporary,
            "unsubscribe": self._unsubscribe,
            "prepare": self._prepare,
            "commit": self._commit,
            "rollback": self._rollback,
            "prepared": self._prepared,
            "list": self._list,
            "show": self._show,
            "purge": self._purge,
            "move": self._move,
            "delete": self._delete,
            "trace": self._trace,
            "channels": self._channels,
            "add_channel": self._add_channel,
            "start_channel": self._start_channel,
            "stop_channel": self._stop_channel,
        }

    def answer(self, said: JsonObject, number: int, session: Session | None) -> JsonObject | None:
        """Raises RefusedError (and what the core raises for names and selectors)."""
        name = str(said.get("ask"))
        answer = self._answers.get(name)
        if answer is None:
            raise RefusedError(f"{name[:80]!r} is no question this broker knows")
        try:
            self._connection.access.check_request(name, said)
        except AccessDeniedError as error:
            self._broker.refusals.refused(self._connection, "a question", error)
            raise
        return answer(AdminRequest(said, number, session))

    def _ping(self, _question: AdminRequest) -> JsonObject:
        return {}

    def _status(self, _question: AdminRequest) -> JsonObject:
        return self._broker.status()

    def _temporary(self, _question: AdminRequest) -> JsonObject:
        return {"name": self._core.destinations.temporary_queue(self._connection).full_name}

    def _delete_temporary(self, question: AdminRequest) -> JsonObject:
        admin.delete(self._core, question.text("name"))
        return {}

    def _unsubscribe(self, question: AdminRequest) -> None:
        begun = self._core.records.lsn
        connection = self._connection
        self._core.unsubscribe(connection.client_id, question.text("name"), owner_name(connection.user))
        self._done(question, begun, {})

    def _prepare(self, question: AdminRequest) -> None:
        session = question.session
        if session is None or not session.transacted:
            raise RefusedError("only a transacted session can prepare")
        self._core.prepare(session, question.text("xid"), Answer(self._connection, question.number, {}))

    def _commit(self, question: AdminRequest) -> None:
        self._core.decide(question.text("xid"), Answer(self._connection, question.number, {}), commit=True)

    def _rollback(self, question: AdminRequest) -> None:
        self._core.decide(question.text("xid"), Answer(self._connection, question.number, {}), commit=False)

    def _prepared(self, _question: AdminRequest) -> JsonObject:
        return {"prepared": self._connection.access.seen_prepared(admin.list_prepared(self._core))}

    def _list(self, question: AdminRequest) -> JsonObject:
        """A part of them: with `more`, the client asks for those that follow, `after` that number."""
        after, sees = question.said.get("after", 0), self._connection.access.sees
        if not isinstance(after, int):
            raise RefusedError(f"after: {str(after)[:80]!r} is no number")
        queues, more = admin.page(self._core, after)
        lines = [admin.summary(queue) for queue in queues if sees(queue)]
        return {"destinations": lines} if more is None else {"destinations": lines, "more": more}

    def _show(self, question: AdminRequest) -> JsonObject:
        return admin.describe(self._core, question.text("name"))

    def _purge(self, question: AdminRequest) -> None:
        work = admin.purge_slices(self._core, question.text("name"), question.optional("selector"))
        self._do_a_slice(question, work)

    def _move(self, question: AdminRequest) -> None:
        most = question.said.get("most")
        if most is not None and (not isinstance(most, int) or most < 0):
            raise RefusedError(f"most: {most!r} is no number of messages")
        selector = question.optional("selector")
        work = admin.move_slices(self._core, question.text("name"), question.text("to"), selector, most)
        self._do_a_slice(question, work)

    def _delete(self, question: AdminRequest) -> None:
        begun = self._core.records.lsn
        admin.delete(self._core, question.text("name"))
        self._done(question, begun, {})

    def _do_a_slice(self, question: AdminRequest, work: admin.Slices, *, again: bool = False) -> None:
        """It is answered when all of it is durable. Raises RefusedError."""
        core = self._core
        begun = core.records.lsn
        try:
            next(work)
        except StopIteration as ended:
            if again and core.records.lsn == begun and core.destinations.has_store:
                # Of the slices before, too: what is said now is durable after them.
                core.records.append(Commit((), ()), None)
            self._done(question, begun, {"messages": ended.value})
        else:
            core.effects.append(Continue(partial(self._go_on, question, work)))

    def _go_on(self, question: AdminRequest, work: admin.Slices) -> None:
        try:
            self._do_a_slice(question, work, again=True)
        except RefusedError as error:
            self._connection.answer(Answer(self._connection, question.number, {"error": str(error)}))

    def _done(self, question: AdminRequest, begun: int, value: JsonObject) -> None:
        """Answered when what was done since record `begun` is durable."""
        self._core.answer_when_durable(begun, Answer(self._connection, question.number, value))

    def _trace(self, question: AdminRequest) -> None:
        """Whose operations are recorded, for who may read the records. With `level` it is changed first."""
        level, application = question.optional("level"), question.optional("application")
        activity = self._broker.activity
        try:
            activity.reload()
            if level or application:
                activity.set_level(level_from(level), application or None)
        except StanzaError as error:
            raise RefusedError(str(error)) from None
        self._flush_a_slice(question, activity.flush_slices())

    def _flush_a_slice(self, question: AdminRequest, work: Iterator[None]) -> None:
        """The trace is answered when all that was recorded before the question is on its queue."""
        if next(work, _ENDED) is _ENDED:
            self._connection.answer(Answer(self._connection, question.number, self._broker.activity.status()))
        else:
            self._core.effects.append(Continue(partial(self._flush_a_slice, question, work)))

    def _channels(self, _question: AdminRequest) -> JsonObject:
        return {"channels": self._connection.access.seen_channels(self._broker.channels.status())}

    def _add_channel(self, question: AdminRequest) -> JsonObject:
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

    def _start_channel(self, question: AdminRequest) -> JsonObject:
        self._broker.channels.of(question.text("to")).start()
        return {}

    def _stop_channel(self, question: AdminRequest) -> None:
        """Answered when it has stopped."""
        channel, connection, number = self._broker.channels.of(question.text("to")), self._connection, question.number

        async def stop() -> None:
            await channel.stop()
            self._broker.core.effects.append(Answer(connection, number, {}))
            self._broker.run_effects()

        self._broker.keep(asyncio.ensure_future(stop()))
