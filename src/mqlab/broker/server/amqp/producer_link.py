"""A link from a sending client: a producer of the broker, or a relay to the destinations that the messages name."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Final, Protocol

from mqlab.broker import limits
from mqlab.broker.server.amqp.consumer_link import refuse_attach
from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    LIMIT_EXCEEDED,
    MESSAGE_TOO_LARGE,
    NOT_IMPLEMENTED,
    TRANSFER_LIMIT,
    LinkError,
)
from mqlab.broker.server.amqp.messages.addresses import address_of
from mqlab.broker.server.amqp.messages.packing import relay_name
from mqlab.broker.server.amqp.producers import PLAIN, AmqpProducer
from mqlab.broker.server.amqp.temporary_nodes import TemporaryNode
from mqlab.broker.server.amqp.termini import answered_target, outcomes, producer_name
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Detach,
    Flow,
    Rejected,
    Source,
    Target,
    TransactionalState,
    Transfer,
    composite,
    encode_performative,
    parse,
    parse_as,
)
from mqlab.wire.amqp10.types import AmqpDecodeError, Encoded

_SERIAL: Final = 0xFFFFFFFF
_ACCEPTED: Final = composite(Accepted())


class ProducerSession(Protocol):
    """The session, as a link from a sending client sees it."""

    channel: int

    def settle_incoming(self, delivery: int, state: Encoded) -> None:
        """Tell the client the outcome of a delivery, with others of the same outcome."""

    def session_flow(self, **fields: Any) -> Flow:
        """A flow with the state of the session, and these fields of a link."""

    def detaching(self, link: "IncomingLink") -> None:
        """The client has ended the link; the broker does so after the outcomes of its deliveries."""

    def refused(self, handle: int) -> None:
        """The broker has ended the link; the client's detach follows."""

    def needs_credit(self, link: "IncomingLink") -> None:
        """The link may grant credit when the current frames are handled."""


class IncomingLink(ABC):
    """Collects the transfers of each delivery, and grants credit for more."""

    def __init__(self, context: AmqpContext, session: ProducerSession, attach: Attach) -> None:
        self._context = context
        self._session = session
        self._attach = attach
        self._count = 0 if attach.initial_delivery_count is None else attach.initial_delivery_count
        self._credit = 0
        # The bytes of the current delivery that have arrived, and its first transfer.
        self._begun = bytearray()
        self._first: Transfer | None = None
        # Ids of the deliveries whose outcome the client does not know yet.
        self._unsettled: set[int] = set()
        self._is_closed = False
        # The client's detach, which is not answered yet.
        self._detach: Detach | None = None

    @property
    def handle(self) -> int:
        return self._attach.handle

    @property
    def has_unsettled(self) -> bool:
        return bool(self._unsettled)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Raises LinkError."""
        if self._is_closed:
            return
        first = self._first
        if first is None:
            if transfer.delivery_id is None:
                raise LinkError(INVALID_FIELD, "the first transfer of a delivery needs a delivery id")
            if not self._credit:
                raise LinkError(TRANSFER_LIMIT, "the link has no credit")
            first = self._first = transfer
        if len(self._begun) + len(payload) > self._context.message_limit:
            raise LinkError(MESSAGE_TOO_LARGE, f"a message has at most {self._context.message_limit} bytes")
        if transfer.aborted:
            self._next_delivery()
        elif transfer.more:
            self._begin(payload)
        else:
            data = bytes(self._begun + payload) if self._begun else payload
            self._next_delivery()
            if not (first.settled or transfer.settled):
                assert first.delivery_id is not None
                self._unsettled.add(first.delivery_id)
            self._take(first, transfer, data)

    def _begin(self, payload: bytes) -> None:
        """More of the delivery follows. Raises LinkError."""
        context = self._context
        if context.unfinished_bytes + len(payload) > context.unfinished_limit:
            raise LinkError(LIMIT_EXCEEDED, f"unfinished messages have at most {context.unfinished_limit} bytes")
        context.unfinished_bytes += len(payload)
        self._begun += payload

    def drop_begun(self) -> None:
        if self._begun:
            self._context.unfinished_bytes -= len(self._begun)
            self._begun = bytearray()

    def _next_delivery(self) -> None:
        self.drop_begun()
        self._first = None
        self._count = (self._count + 1) & _SERIAL
        self._credit -= 1
        if self._is_short_of_credit:
            self._session.needs_credit(self)

    @abstractmethod
    def _take(self, first: Transfer, last: Transfer, data: bytes) -> None:
        """A delivery is complete: `data` are the payloads of all its transfers. Raises LinkError."""

    def _settle(self, delivery: int, state: Encoded) -> None:
        """Tell the client the outcome, unless it has settled the delivery itself, or the link has failed."""
        if delivery in self._unsettled:
            self._unsettled.remove(delivery)
            self._session.settle_incoming(delivery, state)

    def may_grant(self) -> bool:
        """Whether the broker takes more messages now."""
        return True

    @property
    def _is_short_of_credit(self) -> bool:
        return self._credit <= limits.AMQP_CREDIT // 2

    def grant_credit(self) -> bool:
        """Grant credit if less than half is left. Return False if the link must wait for the broker."""
        if self._is_closed or not self._is_short_of_credit:
            return True
        if not self.may_grant():
            return False
        self._credit = limits.AMQP_CREDIT
        self._write_flow()
        return True

    def flow(self, flow: Flow) -> None:
        if flow.echo:
            self._write_flow()

    def _write_flow(self) -> None:
        flow = self._session.session_flow(handle=self.handle, delivery_count=self._count, link_credit=self._credit)
        self._context.write(self._session.channel, encode_performative(flow))

    def _answer_attach(self, target: Encoded | None) -> None:
        attach = self._attach
        source = parse_as(Source, attach.source)
        answered = None if source is None else composite(Source(source.address, outcomes=outcomes()))
        answer = Attach(
            attach.name, attach.handle, True, attach.snd_settle_mode, 0, answered, target,
            max_message_size=self._context.message_limit,
        )  # fmt: skip
        self._context.write(self._session.channel, encode_performative(answer))
        self.grant_credit()

    def detach(self, detach: Detach | None) -> None:
        """The client ends the link; None: it ends the session."""
        self._context.producers.flush()
        self._detach = detach
        self._session.detaching(self)
        self._release()

    def detached(self) -> None:
        """The client knows all outcomes: end the link on the broker's side too."""
        if self._detach is not None:
            answer = Detach(self.handle, self._detach.closed)
            self._context.write(self._session.channel, encode_performative(answer))

    def close(self) -> None:
        """The link has failed: the client gets no more outcomes."""
        self._unsettled.clear()
        self._release()

    def _release(self) -> None:
        """Take no more deliveries."""
        self.drop_begun()
        self._is_closed = True


class SenderLink(IncomingLink):
    def __init__(self, context: AmqpContext, session: ProducerSession, attach: Attach, target: Target) -> None:
        super().__init__(context, session, attach)
        self._target = target
        # The broker's name of the destination; "": each message names its own.
        self._name = ""
        self._temporary: TemporaryNode | None = None
        # The producers that this link has used last.
        self._producer: AmqpProducer | None = None

    def open(self) -> None:
        """Raises LinkError."""
        if self._target.dynamic:
            self._temporary = TemporaryNode(self._context, self._target.capabilities, self._created, self._refused)
        elif self._target.address:
            self._created(producer_name(self._target))
        else:
            self._opened(None)

    def _created(self, name: str) -> None:
        self._name = name
        self._producer = self._context.producers.open(PLAIN, name, self._opened)
        self._producer.users += 1

    def _opened(self, error: LinkError | None) -> None:
        if error is not None:
            self._refused(error)
        elif not self._is_closed:
            address = self._target.address or (address_of(self._name) if self._name else None)
            self._answer_attach(composite(answered_target(self._target, address)))

    def _refused(self, error: LinkError) -> None:
        self._is_closed = True
        self._session.refused(self.handle)
        refuse_attach(self._context, self._session.channel, self._attach, error)

    def may_grant(self) -> bool:
        return self._producer is None or not self._producer.waiting

    def _take(self, first: Transfer, last: Transfer, data: bytes) -> None:
        if first.message_format:
            raise LinkError(NOT_IMPLEMENTED, f"the message format {first.message_format} is not supported")
        context = self._context
        try:
            name = self._name or relay_name(data)
            row = context.packer.pack(data, context.clock_ms())
            state = None if first.state is None and last.state is None else parse(last.state or first.state)
        except AmqpDecodeError as error:
            raise LinkError(DECODE_ERROR, str(error)) from None
        delivery = first.delivery_id
        assert delivery is not None
        if not name:
            self._settled(delivery, _ACCEPTED, LinkError(INVALID_FIELD, "a message without an address (to)"))
            return
        session, accepted = PLAIN, _ACCEPTED
        if isinstance(state, TransactionalState):
            session = context.transactions.get(state.txn_id).session
            accepted = composite(TransactionalState(state.txn_id, _ACCEPTED))
        done = partial(self._settled, delivery, accepted) if delivery in self._unsettled else None
        producer = context.producers.find(session, name)
        if producer is None:
            producer = context.producers.open(session, name, lambda _: None)
        self._producer = producer
        context.producers.send(producer, row, done)

    def _settled(self, delivery: int, accepted: Encoded, error: LinkError | None) -> None:
        self._settle(delivery, accepted if error is None else composite(Rejected(error.fields())))

    def detached(self) -> None:
        super().detached()
        if self._detach is not None and self._detach.closed and self._temporary is not None:
            self._temporary.delete()

    def _release(self) -> None:
        if not self._is_closed and self._name and self._producer is not None:
            self._producer.users -= 1
        super()._release()
