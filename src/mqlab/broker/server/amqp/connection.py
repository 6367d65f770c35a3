"""The connection of an AMQP 1.0 client."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.core.routing.subscriptions import full_name
from mqlab.broker.server.access import owner_name
from mqlab.broker.server.adapter.connection import Action, ProtocolConnection
from mqlab.broker.server.adapter.heartbeats import Heartbeats
from mqlab.broker.server.adapter.state import AdapterState
from mqlab.broker.server.adapter.state_table import NO_INPUT, Row, resolved
from mqlab.broker.server.amqp.context import AmqpContext, FoundSubscription, NativeConsumer
from mqlab.broker.server.amqp.errors import (
    CONNECTION_FORCED,
    DECODE_ERROR,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    LIMIT_EXCEEDED,
    AmqpConditionError,
    refusal_of,
)
from mqlab.broker.server.amqp.handshake import (
    ANONYMOUS,
    ANYBODY,
    EXTERNAL,
    PLAIN,
    ClientOpen,
    Login,
    broker_open,
    client_open,
    login_of,
)
from mqlab.broker.server.amqp.producers import PLAIN as PLAIN_SESSION
from mqlab.broker.server.amqp.sessions import AmqpSessions
from mqlab.broker.server.amqp.state_table import TABLE, AmqpStage
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.inprocess.connection import InProcessConnection
from mqlab.broker.server.peer_address import certified_name
from mqlab.wire.amqp10.encoder import encode_symbols
from mqlab.wire.amqp10.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_FRAME,
    SASL_HEADER,
    AmqpFrame,
    AmqpFrameDecoder,
    AmqpFramingError,
    frame,
)
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    encode_performative,
    read_performative,
)
from mqlab.wire.amqp10.types import AmqpDecodeError, Symbol
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Frame, Kind, ProtocolError

_SASL_OK, _SASL_FAILED = 0, 1
# Silence of so many announced idle times ends the connection.
_TOLERANCE: Final = 2.0


class AmqpServerConnection(ProtocolConnection[bytes | AmqpFrame]):
    """Handles performatives by the stage of the connection; sessions handle their own."""

    violations = (AmqpConditionError, AmqpDecodeError, AmqpFramingError)
    _stage: AmqpStage
    # The methods for headers and performatives in this stage.
    _row: Row[bytes | type]

    def __init__(self, broker: Broker) -> None:
        connection = InProcessConnection(broker)
        super().__init__(broker, connection, AdapterState())
        self._broker = broker
        self._enter(AmqpStage.HEADER)
        self._splitter = AmqpFrameDecoder(limits.FRAME_BEFORE_HELLO)
        self._uses_sasl = False
        self._has_opened = False
        # The error that ends the connection, and what it is about.
        self._failure: AmqpConditionError | None = None
        self._failure_info: dict[Any, Any] | None = None
        self._client_open: ClientOpen | None = None
        message_limit = broker.settings.frame_limit - limits.AMQP_SECTIONS_ROOM
        self._context = AmqpContext(
            self._state.commands, self.write, connection.stays_single, self._find_subscription, message_limit,
            max(message_limit, broker.settings.memory_limit // limits.UNFINISHED_SHARE), broker.clock_ms,
        )  # fmt: skip
        self._sessions = AmqpSessions(self._context)
        producers, transactions = self._context.producers, self._context.transactions
        self._handlers: dict[int, Callable[[Frame], None]] = {
            Kind.DELIVER: self._about_consumer(lambda consumer, frame: consumer.deliver(frame)),
            Kind.ORIGIN: self._about_consumer(lambda consumer, frame: consumer.origin(bytes(frame.payload).decode())),
            Kind.CANCELLED: self._about_consumer(lambda consumer, _: consumer.cancelled()),
            Kind.SEEN: self._about_consumer(lambda consumer, _: consumer.browsed()),
            Kind.CONFIRM: lambda frame: producers.confirmed(frame.link, frame.first),
            Kind.CREDIT: lambda frame: producers.granted(frame.link, frame.amount),
            Kind.OPENED: self._opened,
            Kind.CLOSED: lambda frame: producers.closed(frame.link),
            Kind.COMMITTED: lambda frame: transactions.ended(frame.session),
            Kind.ROLLED_BACK: lambda frame: transactions.ended(frame.session),
            Kind.ANSWER: self._context.answered,
            Kind.HELLO: lambda _: self._logged_in(),
            Kind.ERROR: self._error,
        }

    # The protocol

    def _split(self, data: bytes) -> Iterator[bytes | AmqpFrame]:
        splitter = self._splitter
        splitter.feed(data)
        while True:
            if self._stage in (AmqpStage.HEADER, AmqpStage.HEADER_AFTER_SASL):
                header = splitter.take_header()
                if header is None:
                    return
                yield header
            else:
                one = splitter.take_frame() if self._stage is not AmqpStage.OPENED else None
                frames = splitter.take_frames() if self._stage is AmqpStage.OPENED else [] if one is None else [one]
                if not frames:
                    return
                yield from frames

    def _add(self, decoded: bytes | AmqpFrame) -> None:
        if isinstance(decoded, bytes):
            self._header(decoded)
            return
        kind, channel, body = decoded
        if not body:
            if kind != AMQP_FRAME:
                raise AmqpFramingError("an empty SASL frame")
            return
        performative, payload = read_performative(body)
        if (kind == SASL_FRAME) is not (self._stage is AmqpStage.SASL_INIT):
            raise AmqpFramingError("a frame of the wrong type")
        handle = self._row.get(type(performative))
        if handle is None:
            raise AmqpConditionError(ILLEGAL_STATE, f"{type(performative).__name__} was not expected")
        handle(self, channel, performative, payload)

    def _enter(self, stage: AmqpStage) -> None:
        self._stage, self._row = stage, _ROWS.get(stage, NO_INPUT)

    def _in_session(self, channel: int, performative: object, payload: bytes) -> None:
        self._sessions.handle(channel, performative, payload)

    def _add_after_outcomes(self, channel: int, performative: Begin | Attach | Close, _: bytes) -> None:
        self._actions.append(partial(self._when_settled, channel, performative))

    def _finish_batch(self) -> Iterable[Action]:
        self._context.producers.flush()
        return ()

    @property
    def _waits(self) -> bool:
        waits = self._context.producers.waiting_bytes > limits.AMQP_WAITING
        return waits or not self._row

    @property
    def _is_finished(self) -> bool:
        return self._stage is AmqpStage.CLOSED

    @property
    def _unfinished_bytes(self) -> int:
        return self._splitter.unfinished + self._context.unfinished_bytes

    def _reset(self) -> None:
        self._splitter = AmqpFrameDecoder(limits.FRAME_BEFORE_HELLO)
        self._sessions.clear()
        self._context.consumers.clear()
        self._context.producers.clear()

    def _written(self) -> None:
        self._sessions.end_turn()

    # The handshake

    def _header(self, header: bytes) -> None:
        begin = self._row.get(header)
        if begin is None:
            self._refuse_header()
        else:
            begin(self)

    def _begin_sasl(self) -> None:
        self._uses_sasl = True
        self._enter(AmqpStage.SASL_INIT)
        mechanisms = SaslMechanisms(encode_symbols(self._mechanisms()))
        self.write(SASL_HEADER)
        self.write(frame(0, encode_performative(mechanisms), SASL_FRAME))

    def _begin_after_sasl(self) -> None:
        self.write(AMQP_HEADER)
        self._enter(AmqpStage.OPEN)

    def _begin_without_sasl(self) -> None:
        if self._broker.users is not None:
            self._refuse_header()
            return
        # The broker asks for no password.
        self.write(AMQP_HEADER)
        self._enter(AmqpStage.LOGIN)
        self._hello(ANYBODY)

    def _refuse_header(self) -> None:
        """The specification: answer with the header that is supported, and close the connection."""
        self.write(SASL_HEADER if self._stage is AmqpStage.HEADER else AMQP_HEADER)
        self._fail_silently("this broker speaks AMQP 1.0 and needs SASL")

    def _mechanisms(self) -> tuple[str, ...]:
        if self._broker.users is None:
            return (PLAIN, ANONYMOUS)
        return (EXTERNAL, PLAIN) if certified_name(self._transport) else (PLAIN,)

    def _sasl_init(self, _channel: int, init: SaslInit, _payload: bytes) -> None:
        login = login_of(init, self._mechanisms())
        self._enter(AmqpStage.LOGIN)
        if login is None:
            self._sasl_failed()
        else:
            self._hello(login)

    def _hello(self, login: Login) -> None:
        self._state.commands.add_json(Kind.HELLO, {"version": native.VERSION, **login})

    def _sasl_failed(self) -> None:
        self._fail_silently("no login with SASL")

    def _fail_silently(self, text: str) -> None:
        """End the connection where the protocol has no error frame."""
        self._failure = None
        self.refuse(text)

    def _logged_in(self) -> None:
        self._state.logged_in = True
        self._splitter.limit = limits.AMQP_FRAME
        if self._uses_sasl:
            self.write(frame(0, encode_performative(SaslOutcome(_SASL_OK)), SASL_FRAME))
            self._enter(AmqpStage.HEADER_AFTER_SASL)
        else:
            self._enter(AmqpStage.OPEN)

    def _open(self, _channel: int, performative: Open, _payload: bytes) -> None:
        asked = client_open(performative)
        self._context.frame_limit = asked.frame_limit
        if asked.container:
            try:
                self._native.identify(asked.container, sole=asked.is_sole)
            except ProtocolError as error:
                self._write_open({Symbol("amqp:connection-establishment-failed"): True})
                self._failure_info = {Symbol("invalid-field"): Symbol("container-id")}
                raise AmqpConditionError(INVALID_FIELD, str(error)) from None
        self._write_open()
        self._enter(AmqpStage.OPENED)
        self._state.commands.add_json(Kind.OPEN_SESSION, {"transacted": False}, session=PLAIN_SESSION)
        self._heartbeats = Heartbeats(
            asked.idle_s, limits.AMQP_IDLE * _TOLERANCE, lambda: self._write_now(EMPTY_FRAME), self._is_silent
        )  # fmt: skip

    def _write_open(self, properties: dict[Symbol, str | bool] | None = None) -> None:
        self._has_opened = True
        self._context.write(0, encode_performative(broker_open(self._broker.settings.name, properties)))

    def _is_silent(self) -> None:
        self._violated(AmqpConditionError(LIMIT_EXCEEDED, "no frame arrived within the idle timeout"))

    def _find_subscription(self, name: str, is_global: bool) -> FoundSubscription | None:
        client = "" if is_global else self._native.client_id
        key = full_name(client, name, owner_name(self._native.user))
        queue = self._broker.core.destinations.routing.durable.get(key)
        if queue is None or queue.subscription is None:
            return None
        terms = queue.subscription.terms
        return FoundSubscription(terms.topic, terms.shared)

    def _when_settled(self, channel: int, performative: Begin | Attach | Close) -> bool:
        """Handle the frame, or return False: the outcomes of earlier deliveries come first."""
        self._context.producers.flush()
        self._written()
        if not self._sessions.is_ready(channel, performative):
            return False
        if isinstance(performative, Close):
            self._context.write(0, encode_performative(Close()))
            self._context.end_writing()
            self._enter(AmqpStage.CLOSED)
        else:
            self._sessions.handle(channel, performative)
        return True

    # Errors

    def _violation_text(self, error: Exception) -> str:
        return str(error) if self.logged_in else "the client does not follow AMQP 1.0"

    def _violated(self, error: Exception) -> None:
        self._failure = (
            error if isinstance(error, AmqpConditionError) else AmqpConditionError(_condition(error), str(error))
        )
        super()._violated(error)

    def _ended_by_broker(self, document: Any) -> None:
        """The native connection ends: tell the client why, as far as the protocol allows."""
        failure = self._failure or AmqpConditionError(CONNECTION_FORCED, str(document.get("message", "")))
        if self._uses_sasl and self._stage in (AmqpStage.SASL_INIT, AmqpStage.LOGIN):
            self.write(frame(0, encode_performative(SaslOutcome(_SASL_FAILED)), SASL_FRAME))
        elif self._stage in (AmqpStage.OPEN, AmqpStage.OPENED):
            if not self._has_opened:
                self._write_open()
            self._context.write(0, encode_performative(Close(failure.fields(self._failure_info))))
        self._state.failed = True

    # Frames of the broker

    def _encode(self, frame: Frame) -> None:
        handler = self._handlers.get(frame.kind)
        if handler is not None:
            handler(frame)

    def _about_consumer(self, act: Callable[[NativeConsumer, Frame], None]) -> Callable[[Frame], None]:
        """A handler of frames about a consumer; those for one that is closed are ignored."""
        consumers = self._context.consumers

        def handle(frame: Frame) -> None:
            consumer = consumers.get(frame.link)
            if consumer is not None:
                act(consumer, frame)

        return handle

    def _opened(self, frame: Frame) -> None:
        consumer = self._context.consumers.get(frame.link)
        if consumer is not None:
            consumer.opened()
        elif frame.link:
            self._context.producers.opened(frame.link)

    def _error(self, frame: Frame) -> None:
        document, link = frame.json(), frame.link
        if self._state.failed:
            return
        if not link and not frame.session:
            self._ended_by_broker(document)
            return
        error = refusal_of(document)
        consumer = self._context.consumers.get(link) if link else None
        if frame.session > PLAIN_SESSION:
            self._context.transactions.refused(frame.session, error)
        if consumer is not None:
            consumer.refused(error)
        elif link:
            self._context.producers.refused(link, frame.first, error)


def _condition(error: Exception) -> str:
    return FRAMING_ERROR if isinstance(error, AmqpFramingError) else DECODE_ERROR


_ROWS: Final = resolved(TABLE, AmqpServerConnection)
