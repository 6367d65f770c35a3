"""A connection of the native protocol: it turns frames into commands of the core."""

import asyncio
from collections.abc import Callable
from time import time_ns
from typing import Final, cast

from mqlab.broker import limits
from mqlab.broker.core import effects
from mqlab.broker.core.dispatch.direct import DecodedHeaders
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.broker.core.refusal import must_stay_single
from mqlab.broker.security.rights import User
from mqlab.broker.server.access import Access, owner_name, permitted_frames
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.admin_requests import AdminRequestHandler
from mqlab.broker.server.native.encoder import EffectEncoder
from mqlab.broker.server.native.frame_reader import FrameReader
from mqlab.broker.server.native.handshake import NativeHandshake
from mqlab.broker.server.native.refusal_frames import (
    REFUSALS,
    consumer_options,
    destination_in,
    receive_key,
    refusal,
    reply_key,
)
from mqlab.broker.server.native.send_coalescing import KEEP_IN_PLACE, SEQUENCE_NUMBERS, SendCoalescer, send_individually
from mqlab.broker.server.peer_address import certified_name, peer_of
from mqlab.broker.server.refusal_log import with_refusal_log
from mqlab.broker.server.trace.api_trace import ApiTrace
from mqlab.broker.server.trace.operation_recorder import OperationRecorder
from mqlab.broker.server.trace.recording import TracedConnection
from mqlab.json_values import JsonObject
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import Buffer, Payload, validate
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind, ProtocolError
from mqlab.wire.native.payload import COALESCED

# Unsent bytes of a connection at which its consumers pause, and at which they resume.
_UNSENT_HIGH, _UNSENT_LOW = 1024 * 1024, 256 * 1024

_pack: Final = native.HEADER.pack
_PERSISTENT, _CONFIRM, _REDELIVERED = map(int, (Flag.PERSISTENT, Flag.CONFIRM, Flag.REDELIVERED))
_REJECTED: Final = int(Flag.REJECTED)


class NativeServerConnection(FrameReader, EffectEncoder):
    """One client. The broker accepts nothing but HELLO before the login; a protocol error ends the connection."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._core = broker.core
        self._sessions: dict[int, CoreSession] = {}
        self._producers: dict[int, CoreProducer] = {}
        self._consumers: dict[int, CoreConsumer] = {}
        self._transport: asyncio.Transport | None = None
        self._login_deadline: asyncio.TimerHandle | None = None
        self.peer = ""
        self._unsent: list[Buffer] = []
        self._user: User | None = None  # None before the login
        self.client_id = ""
        self.application = ""  # the name that the program gave itself
        self.number = next(broker.numbers)
        self._connected_at_ns = time_ns()
        self.call_recorder = broker.api_trace.call_recorder(self, {}) if broker.api_trace is not None else None
        self.access = Access(broker.core, self)
        self._handshake = NativeHandshake(broker, self)
        self._admin_requests = AdminRequestHandler(broker, self)
        self._coalescer = SendCoalescer(broker.core, self._producers, self._write)
        commands: dict[int, Callable[[Frame], object]] = {
            Kind.SEND: self._send, Kind.ACKNOWLEDGE: self._acknowledge, Kind.ACKNOWLEDGE_ROWS: self._acknowledge_rows,
            Kind.RECEIVE: self._receive, Kind.REQUEST: self._request, Kind.CANCEL: self._cancel,
            Kind.COMMIT: self._commit, Kind.ROLLBACK: self._rollback, Kind.OPEN_SESSION: self._open_session,
            Kind.OPEN_PRODUCER: with_refusal_log(broker.refusals, self, self._open_producer),
            Kind.OPEN_CONSUMER: with_refusal_log(broker.refusals, self, self._open_consumer),
            Kind.CLOSE: self._close, Kind.ASK: self._ask,
        }  # fmt: skip
        self._plain = self._commands = permitted_frames(commands)

    @property
    def user(self) -> User:
        assert self._user is not None
        return self._user

    def describe(self) -> JsonObject | None:
        """The client, for an administrator; None before its login."""
        if self._user is None:
            return None
        return {
            "number": self.number, "user": self._user.name, "client_id": self.client_id,
            "application": self.application, "peer": self.peer, "connected_ms": self._connected_at_ns // 1_000_000,
            "producers": len(self._producers), "consumers": len(self._consumers),
        }  # fmt: skip

    @property
    def is_gone(self) -> bool:
        return self._transport is None

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport by inheritance, only by their methods.
        self._transport = cast(asyncio.Transport, transport)
        self.peer, self._handshake.certified_name = peer_of(transport), certified_name(transport)
        reason = "the broker stops" if self._broker.is_closing else self._broker.guard.admit(self.peer)
        if reason is not None:
            self.fail("limit", reason)
            return
        self._broker.connections.add(self)
        self._guard_reading()
        self._transport.set_write_buffer_limits(high=_UNSENT_HIGH, low=_UNSENT_LOW)
        late = f"not logged in within {limits.HELLO_SECONDS:g} seconds"  # the login cancels it, and the end
        self._login_deadline = asyncio.get_running_loop().call_later(limits.HELLO_SECONDS, self.fail, "protocol", late)

    def _guard_reading(self) -> None:
        assert self._transport is not None
        self._gate.attach(self._transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        for consumer in self._consumers.values():
            self._core.pause(consumer)

    def resume_writing(self) -> None:
        super().resume_writing()
        for consumer in self._consumers.values():
            self._core.resume(consumer)
        self._broker.run_effects()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        self._transport = None
        self._broker.closing_sockets.discard(self)
        self._pending.clear()
        self._broker.unfinished.forget(self)
        self._update_untraced()
        if self in self._broker.connections:
            self._close_sessions()
        # Its parts refer to the connection, so it waits for the garbage collector. Its memory does not wait with it:
        # under attack, thousands of connections end between two collections.
        self._receiver.close()
        self._gate.attach(None)
        self.operation_recorder = self.call_recorder = None
        self._commands, self._plain = {}, {}

    def _close_sessions(self) -> None:
        began = time_ns()
        self._broker.connections.discard(self)
        self._broker.guard.release(self.peer)
        for session in self._sessions.values():
            self._core.close_session(session)
        self._core.close_connection(self)
        if self.operation_recorder is not None:
            self.operation_recorder.disconnected(began)
        if self.call_recorder is not None:
            self.call_recorder.connection_closed()
        self._sessions.clear()
        self._producers.clear()
        self._consumers.clear()
        self._broker.run_effects()

    def drop(self, *, taken_over: bool = False) -> None:  # noqa: ARG002 - the native protocol has no word for it
        """End the connection at once, without flushing. `taken_over`: the client has connected again."""
        if self._transport is not None:
            self._transport.abort()
            self.connection_lost(None)

    # Commands

    def _handle(self, frame: Frame) -> None:
        if self._transport is None:
            return
        if self.call_recorder is not None:
            self.call_recorder.frame_received(frame)
        if self._user is None:
            self._handshake.hello(frame)
            return
        command = self._commands.get(frame.kind)
        if command is None:
            raise ProtocolError(f"frame kind {frame.kind} is not one that a client sends now")
        try:
            command(frame)
        except REFUSALS as error:
            self._write(refusal(frame, error))

    def welcome(self, user: User, client_id: str) -> None:
        """The handshake has accepted the client."""
        self._user, self.client_id = user, client_id
        settings = self._broker.settings
        self._receiver.limit = settings.frame_limit
        hello = {"version": native.VERSION, "frame_limit": settings.frame_limit, "name": settings.name}
        self._write(native.frame(Kind.HELLO, hello))
        self._update_untraced()
        self._broker.activity.logged_in(self, self._connected_at_ns)

    def identify(self, client_id: str, *, sole: bool) -> None:
        """Name the client after its login. Raises ProtocolError; with `sole`, also if the name is in use."""
        self._handshake.identify(client_id, sole=sole)
        self.client_id = client_id

    def stays_single(self, link: int) -> bool:
        """Whether the broker handles messages for the destination of this producer one by one."""
        producer = self._producers.get(link)
        return producer is not None and must_stay_single(producer.destination)

    def record_with(self, operation_recorder: OperationRecorder | None) -> None:
        """Record operations for the activity trace from now on; None: stop recording."""
        self.operation_recorder = operation_recorder
        self._commands = self._plain if operation_recorder is None else operation_recorder.commands
        self._update_untraced()

    def follow(self, trace: ApiTrace) -> None:
        """Record frames for the API trace from now on, if it is on."""
        self.call_recorder = trace.call_recorder(self, {**self._producers, **self._consumers})
        self._update_untraced()

    def _update_untraced(self) -> None:
        is_open = self._user is not None and self._transport is not None
        if self._login_deadline is not None and (is_open or self._transport is None):
            # The timer would keep a closed connection in memory.
            self._login_deadline.cancel()
        self._untraced = is_open and self.call_recorder is None and self._commands is self._plain

    def traced_connection(self) -> TracedConnection:
        links = self._sessions, self._producers, self._consumers
        return TracedConnection(self.number, self.application, *links, self._plain, self._broker)

    def _open_session(self, frame: Frame) -> None:
        if frame.session in self._sessions or not frame.session:
            raise ProtocolError(f"session {frame.session} is open already, or is not a valid number")
        if len(self._sessions) >= limits.SESSIONS_A_CONNECTION:
            raise CommandError(f"a connection has at most {limits.SESSIONS_A_CONNECTION} sessions")
        transacted = bool(frame.json().get("transacted"))
        # Clients with different client ids share the subscriptions of a session without one.
        client = "" if frame.json().get("shared") else self.client_id
        owner = {"client": client, "user": owner_name(self.user)}
        session = self._core.open_session(self, frame.session, transacted=transacted, **owner)
        self._sessions[frame.session] = session
        self._write(native.header(Kind.OPENED, session=frame.session))

    def _open_producer(self, frame: Frame) -> None:
        session, name = self._new_link_arguments(frame)
        self.access.check_frame(Kind.OPEN_PRODUCER, destination=name)
        self._producers[frame.link] = self._core.open_producer(session, frame.link, name)
        self._write(native.header(Kind.OPENED, session=frame.session, link=frame.link))

    def _open_consumer(self, frame: Frame) -> None:
        session, name = self._new_link_arguments(frame)
        if frame.amount > limits.PREFETCH:
            raise CommandError(f"credit for {frame.amount} messages; the limit is {limits.PREFETCH}")
        self.access.check_frame(Kind.OPEN_CONSUMER, destination=name)
        # The answer and the first delivery are effects, which run after this command.
        self._consumers[frame.link] = self._core.open_consumer(
            session, frame.link, name, frame.amount, consumer_options(frame), paused=self._paused
        )
        self._names[frame.link] = self._origins[frame.link] = name

    def _new_link_arguments(self, frame: Frame) -> tuple[CoreSession, str]:
        if frame.link in self._producers or frame.link in self._consumers or not frame.link:
            raise ProtocolError(f"link {frame.link} is open already, or is not a valid number")
        if len(self._producers) + len(self._consumers) >= limits.LINKS_A_CONNECTION:
            raise CommandError(f"a connection has at most {limits.LINKS_A_CONNECTION} producers and consumers")
        return self._session(frame), destination_in(frame)

    def _session(self, frame: Frame) -> CoreSession:
        session = self._sessions.get(frame.session)
        if session is None:
            raise ProtocolError(f"there is no session {frame.session}")
        return session

    def _consumer(self, link: int) -> CoreConsumer:
        consumer = self._consumers.get(link)
        if consumer is None:
            raise ProtocolError(f"there is no consumer {link}")
        return consumer

    def _send(self, frame: Frame) -> Payload:
        _, flags, _, link, first, rows, view = frame
        payload = Payload(self._kept(view) if len(view) >= KEEP_IN_PLACE else bytes(view), rows, flags & FORM)
        self._take(link, first, payload, flags, validate(payload))
        return payload

    def _take(self, link: int, first: int, payload: Payload, flags: int, headers: DecodedHeaders) -> None:
        producer, last = self._producers.get(link), first + payload.rows - 1
        if producer is None:
            raise ProtocolError(f"there is no producer {link}")
        if last >= SEQUENCE_NUMBERS:
            raise ProtocolError("the sequence numbers are used up")
        persistent, confirm = flags & _PERSISTENT > 0, flags & _CONFIRM > 0
        if last > first and payload.form & COALESCED and must_stay_single(producer.destination):
            send_individually(self._core, producer, payload, first, persistent=persistent, confirm=confirm)
        else:
            self._core.send(producer, payload, last, persistent=persistent, confirm=confirm, headers=headers)

    def _request(self, frame: Frame) -> Payload:
        _, flags, _, link, first, number, view = frame
        payload = Payload(self._kept(view) if len(view) >= KEEP_IN_PLACE else bytes(view), 1, flags & FORM)
        (headers, key), consumer = reply_key(payload), self._consumer(number)
        if consumer.unacknowledged:
            self._core.acknowledge(consumer, consumer.next_delivery - 1, 0)
        self._core.receive(consumer, key)
        self._take(link, first, payload, 0, headers)
        return payload

    def _acknowledge(self, frame: Frame) -> None:
        self._core.acknowledge(self._consumer(frame.link), frame.first, frame.amount)

    def _acknowledge_rows(self, frame: Frame) -> None:
        within = self._session(frame) if frame.session else None
        self._core.acknowledge_rows(self._consumer(frame.link), frame.first, frame.amount, within)

    def _receive(self, frame: Frame) -> None:
        consumer = self._consumer(frame.link)
        if frame.first:
            self._core.acknowledge(consumer, frame.first, 0)
        self._core.receive(consumer, receive_key(frame))

    def _cancel(self, frame: Frame) -> None:
        consumer = self._consumer(frame.link)
        self._core.cancel_receives(consumer)
        # An effect, so that it follows the deliveries of earlier commands.
        self._effects.append(effects.Cancelled(consumer))

    def _commit(self, frame: Frame) -> None:
        self._core.commit(self._session(frame))

    def _rollback(self, frame: Frame) -> None:
        if frame.link and frame.flags & _REJECTED:
            self._core.reject_rows(self._consumer(frame.link), frame.first, frame.amount)
        elif frame.link and frame.amount:
            tried = bool(frame.flags & _REDELIVERED)
            self._core.requeue_rows(self._consumer(frame.link), frame.first, frame.amount, tried=tried)
        elif frame.link:
            self._core.requeue_all(self._consumer(frame.link), frame.first)
        else:
            self._core.rollback(self._session(frame))

    def _close(self, frame: Frame) -> None:
        if frame.link in self._producers:
            self._core.finish_producer(self._producers.pop(frame.link))
        elif frame.link in self._consumers:
            self._core.close_consumer(self._consumers.pop(frame.link), frame.first)
            self._write(native.header(Kind.CLOSED, link=frame.link))
        elif not frame.link and frame.session in self._sessions:
            session = self._sessions.pop(frame.session)
            for links in (self._producers, self._consumers):
                for number in [n for n, link in links.items() if link.session is session]:
                    del links[number]
            self._core.close_session(session)
            self._write(native.header(Kind.CLOSED, session=frame.session))
        else:
            raise ProtocolError("the link or session to close does not exist")

    def _ask(self, frame: Frame) -> None:
        session = self._sessions.get(frame.session)
        try:
            answer = self._admin_requests.handle(frame.json(), frame.first, session)
        except REFUSALS as error:
            answer = {"error": str(error)}
        if answer is not None:
            self.answer(effects.Answer(self, frame.first, answer))

    # Output

    def _kept(self, view: Buffer) -> Buffer:
        return view

    def _put(self, kind: int, flags: int, session: int, link: int, first: int, amount: int, payload: Buffer) -> None:
        if not self._unsent:
            self._broker.unsent.append(self)
        self._unsent += (_pack(len(payload), kind, flags, session, link, first, amount), payload)

    def _write(self, data: Buffer) -> None:
        """Queue a packed frame. All frames of a turn leave in one system call."""
        if not self._unsent:
            self._broker.unsent.append(self)
        self._unsent.append(data)

    def flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self.call_recorder is not None:
            self.call_recorder.bytes_sent(unsent)
        if self._transport is not None:
            self._transport.writelines(unsent)

    def fail(self, code: str, message: str) -> None:
        """Send the reason and end the connection."""
        if self._transport is not None:
            self._broker.refusals.ended(message)
            self._write(native.frame(Kind.ERROR, {"code": code, "message": message}))
            self.flush()
        # In a connection inside another protocol, an earlier frame may have failed and ended it meanwhile.
        if (transport := self._transport) is not None:
            transport.close()
            self.connection_lost(None)
            self._limit_closing(transport)

    def _limit_closing(self, transport: asyncio.Transport) -> None:
        self._broker.closing_sockets.add(self, transport)
