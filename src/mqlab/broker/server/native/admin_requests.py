"""Admin requests: commands of a client that are not about messages. They are rare, so they are JSON."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol

from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core import admin
from mqlab.broker.core.durability.records import Commit
from mqlab.broker.core.effects import Answer, Continue
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.server.access import Access, AccessDeniedError, Client, owner_name, required_text
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.trace.stanzas import StanzaError, level_from
from mqlab.json_values import JsonObject

_FINISHED: Final = object()


class AdminRequest(NamedTuple):
    """`number` ties the answer to the request."""

    fields: JsonObject
    number: int
    session: CoreSession | None

    def text(self, key: str) -> str:
        return required_text(self.fields, key)

    def optional(self, key: str) -> str:
        return self.text(key) if self.fields.get(key) else ""


class AdminConnection(Client, Protocol):
    access: Access
    client_id: str

    def answer(self, effect: Answer) -> None: ...


class AdminRequestHandler:
    """Handles the admin requests of one connection. A handler that returns None answers later, with an effect."""

    def __init__(self, broker: Broker, connection: AdminConnection) -> None:
        self._broker = broker
        self._core = broker.core
        self._connection = connection

    def handle(self, fields: JsonObject, number: int, session: CoreSession | None) -> JsonObject | None:
        """Raises CommandError, BadNameError and BadSelectorError."""
        name = str(fields.get("ask"))
        handler = self._handlers.get(name)
        if handler is None:
            raise CommandError(f"unknown admin request {name[:80]!r}")
        try:
            self._connection.access.check_request(name, fields)
        except AccessDeniedError as error:
            self._broker.refusals.refused(self._connection, "an admin request", error)
            raise
        return handler(self, AdminRequest(fields, number, session))

    def _ping(self, _request: AdminRequest) -> JsonObject:
        return {}

    def _status(self, _request: AdminRequest) -> JsonObject:
        return self._broker.status()

    def _temporary(self, _request: AdminRequest) -> JsonObject:
        return {"name": self._core.destinations.temporary_queue(self._connection).full_name}

    def _delete_temporary(self, request: AdminRequest) -> JsonObject:
        admin.delete(self._core, request.text("name"))
        return {}

    def _unsubscribe(self, request: AdminRequest) -> None:
        first_lsn = self._core.records.lsn
        connection = self._connection
        client = "" if request.fields.get("global") else connection.client_id
        self._core.unsubscribe(client, request.text("name"), owner_name(connection.user))
        self._answer_when_durable(request, first_lsn, {})

    def _prepare(self, request: AdminRequest) -> None:
        session = request.session
        if session is None or not session.transacted:
            raise CommandError("only a transacted session can prepare")
        self._core.prepare(session, request.text("xid"), Answer(self._connection, request.number, {}))

    def _commit(self, request: AdminRequest) -> None:
        self._core.decide(request.text("xid"), Answer(self._connection, request.number, {}), commit=True)

    def _rollback(self, request: AdminRequest) -> None:
        self._core.decide(request.text("xid"), Answer(self._connection, request.number, {}), commit=False)

    def _prepared(self, _request: AdminRequest) -> JsonObject:
        return {"prepared": self._connection.access.seen_prepared(admin.list_prepared(self._core))}

    def _list(self, request: AdminRequest) -> JsonObject:
        """One page. The client asks for the next page with `after` set to the `more` of this one."""
        after, sees = request.fields.get("after", 0), self._connection.access.sees
        if not isinstance(after, int):
            raise CommandError(f"after: {str(after)[:80]!r} is not a number")
        queues, more = admin.page(self._core, after)
        lines = [admin.summary(queue) for queue in queues if sees(queue)]
        return {"destinations": lines} if more is None else {"destinations": lines, "more": more}

    def _show(self, request: AdminRequest) -> JsonObject:
        return admin.describe(self._core, request.text("name"))

    def _purge(self, request: AdminRequest) -> None:
        work = admin.purge_slices(self._core, request.text("name"), request.optional("selector"))
        self._run_slice(request, work)

    def _move(self, request: AdminRequest) -> None:
        most = request.fields.get("most")
        if most is not None and (not isinstance(most, int) or most < 0):
            raise CommandError(f"most: {most!r} is not a number of messages")
        selector = request.optional("selector")
        work = admin.move_slices(self._core, request.text("name"), request.text("to"), selector, most)
        self._run_slice(request, work)

    def _delete(self, request: AdminRequest) -> None:
        first_lsn = self._core.records.lsn
        admin.delete(self._core, request.text("name"))
        self._answer_when_durable(request, first_lsn, {})

    def _run_slice(self, request: AdminRequest, work: admin.Slices, *, resumed: bool = False) -> None:
        """Run one slice; answer when all slices are durable. Raises CommandError."""
        core = self._core
        first_lsn = core.records.lsn
        try:
            next(work)
        except StopIteration as ended:
            if resumed and core.records.lsn == first_lsn and core.destinations.has_store:
                # This record becomes durable after those of the earlier slices.
                core.records.append(Commit((), ()), None)
            self._answer_when_durable(request, first_lsn, {"messages": ended.value})
        else:
            core.effects.append(Continue(partial(self._resume, request, work)))

    def _resume(self, request: AdminRequest, work: admin.Slices) -> None:
        try:
            self._run_slice(request, work, resumed=True)
        except CommandError as error:
            self._connection.answer(Answer(self._connection, request.number, {"error": str(error)}))

    def _answer_when_durable(self, request: AdminRequest, first_lsn: int, value: JsonObject) -> None:
        """Answer when the records from `first_lsn` on are durable."""
        self._core.answer_when_durable(first_lsn, Answer(self._connection, request.number, value))

    def _trace(self, request: AdminRequest) -> None:
        """The status of the activity trace. With `level` or `application` the level changes first."""
        level, application = request.optional("level"), request.optional("application")
        activity = self._broker.activity
        try:
            activity.reload()
            if level or application:
                activity.set_level(level_from(level), application or None)
        except StanzaError as error:
            raise CommandError(str(error)) from None
        self._flush_slice(request, activity.flush_slices())

    def _flush_slice(self, request: AdminRequest, work: Iterator[None]) -> None:
        """Answer when all earlier records are on the trace queue."""
        if next(work, _FINISHED) is _FINISHED:
            self._connection.answer(Answer(self._connection, request.number, self._broker.activity.status()))
        else:
            self._core.effects.append(Continue(partial(self._flush_slice, request, work)))

    def _api_trace(self, request: AdminRequest) -> JsonObject:
        """Whether the API trace is on. With `on` it is switched first: "yes" or "no"."""
        trace, on = self._broker.api_trace, request.optional("on")
        if trace is None:
            raise CommandError("this broker has no file for an API trace: it was started without api_trace")
        if on not in ("", "yes", "no"):
            raise CommandError(f"on: {on[:80]!r} is neither yes nor no")
        if on == "yes" and trace.has_ended:
            raise CommandError("the API trace has ended: its file could not be written")
        if on:
            trace.switch(on=on == "yes")
        return {"on": trace.is_on}

    def _connections(self, _request: AdminRequest) -> JsonObject:
        """The clients that have logged in, as many as a list may have."""
        described = filter(None, (connection.describe() for connection in self._broker.connections))
        return {"connections": sorted(islice(described, limits.LISTED), key=lambda one: one["number"])}

    def _monitoring(self, request: AdminRequest) -> JsonObject:
        """The level of monitoring. With `level` it changes first, until the broker ends."""
        if request.fields.get("level"):
            try:
                level = level_from(request.text("level"))
            except StanzaError as error:
                raise CommandError(str(error)) from None
            if level is None:
                level = self._broker.settings.monitoring
            admin.set_monitoring(self._core, level)
            self._broker.channels.set_monitoring(level)
        return {"level": self._core.monitoring}

    def _channels(self, _request: AdminRequest) -> JsonObject:
        return {"channels": self._connection.access.seen_channels(self._broker.channels.status())}

    def _add_channel(self, request: AdminRequest) -> JsonObject:
        """Add a channel until the broker ends. The request has the password: the broker reads no file for it."""
        options = {key: request.fields[key] for key in ("batch", "retry") if request.fields.get(key) is not None}
        ca = request.optional("ca")
        try:
            settings = ChannelSettings(
                request.text("to"), request.text("address"), request.optional("user"),
                ca=Path(ca) if ca else None, **options,
            )  # fmt: skip
        except ChannelError as error:
            raise CommandError(str(error)) from None
        self._broker.channels.add(settings, request.optional("password"))
        return {}

    def _start_channel(self, request: AdminRequest) -> JsonObject:
        self._broker.channels.get(request.text("to")).start()
        return {}

    def _stop_channel(self, request: AdminRequest) -> None:
        """Answer when the channel has stopped."""
        channel, connection, number = self._broker.channels.get(request.text("to")), self._connection, request.number

        async def stop() -> None:
            await channel.stop()
            self._broker.core.effects.append(Answer(connection, number, {}))
            self._broker.run_effects()

        self._broker.hold_task(asyncio.ensure_future(stop()))

    _handlers: ClassVar[Mapping[str, Callable[["AdminRequestHandler", AdminRequest], JsonObject | None]]] = {
        "ping": _ping, "status": _status, "temporary": _temporary, "delete_temporary": _delete_temporary,
        "unsubscribe": _unsubscribe, "prepare": _prepare, "commit": _commit, "rollback": _rollback,
        "prepared": _prepared, "list": _list, "show": _show, "purge": _purge, "move": _move, "delete": _delete,
        "trace": _trace, "api_trace": _api_trace, "monitoring": _monitoring,
        "connections": _connections, "channels": _channels,
        "add_channel": _add_channel,
        "start_channel": _start_channel, "stop_channel": _stop_channel,
    }  # fmt: skip
