"""A link to a receiving client: a consumer of the broker, with the credit that the client grants."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from mqlab.broker import limits
from mqlab.broker.server.adapter.id_ranges import IdRange
from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.errors import NOT_FOUND, LinkError
from mqlab.broker.server.amqp.messages.addresses import address_of
from mqlab.broker.server.amqp.messages.unpacking import DeliveryFacts, unpack_messages
from mqlab.broker.server.amqp.producers import PLAIN
from mqlab.broker.server.amqp.temporary_nodes import TemporaryNode
from mqlab.broker.server.amqp.termini import (
    ConsumerTerms,
    answered_source,
    answered_target,
    is_global_link,
    subscription_name,
    subscription_source,
)
from mqlab.json_values import JsonObject
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Detach,
    Flow,
    Modified,
    Rejected,
    Source,
    Target,
    composite,
    encode_performative,
    parse_as,
)
from mqlab.wire.native.bodies import Payload
from mqlab.wire.native.frames import FORM, Flag, Frame, Kind

_PERSISTENT, _REDELIVERED, _REJECTED = int(Flag.PERSISTENT), int(Flag.REDELIVERED), int(Flag.REJECTED)
_SERIAL: Final = 0xFFFFFFFF
# The sender settles every delivery when it sends it.
_SETTLED: Final = 1


class ConsumerSession(Protocol):
    """The session, as a link to a receiving client sees it."""

    channel: int

    def credit_share(self, link: "ConsumerLink") -> int:
        """The messages that the link may get, as far as the client's window allows."""

    def transmit(self, link: "ConsumerLink", number: int, message: bytes, *, settled: bool) -> None:
        """Send a message; `number` is its delivery id in the native protocol."""

    def session_flow(self, **fields: Any) -> Flow:
        """A flow with the state of the session, and these fields of a link."""

    def detached(self, handle: int) -> None:
        """The link has ended on both sides, or failed."""

    def refused(self, handle: int) -> None:
        """The broker has ended the link; the client's detach follows."""

    def fail_link(self, handle: int, error: LinkError) -> None:
        """Detach the link with an error."""

    def forget_deliveries(self, link: "ConsumerLink") -> None:
        """The link has ended: its deliveries cannot be settled any more."""


class ConsumerLink:
    def __init__(
        self, context: AmqpContext, session: ConsumerSession, attach: Attach, source: Source, terms: ConsumerTerms
    ) -> None:
        self._context = context
        self._session = session
        self._attach = attach
        self._source = source
        self._terms = terms
        self._name = terms.name
        self._temporary: TemporaryNode | None = None
        self._link = 0
        self.presettled = attach.snd_settle_mode == _SETTLED
        self._is_open = self._is_closed = False
        # The destination of the next deliveries; "": that of the link.
        self._origin = ""
        # Deliveries so far, and the number of deliveries up to which the client has granted credit.
        self._delivered = 0
        self._granted = 0
        # Credit that the native consumer has.
        self._native_credit = 0
        self._cancels = 0
        self._drains = False
        # A browser has reached the end of its queue.
        self._has_browsed = False
        self._last_native = 0
        self._unacknowledged = False

    @property
    def is_browser(self) -> bool:
        return bool(self._terms.options.get("browse"))

    # The client

    def open(self) -> None:
        if self._source.dynamic:
            self._temporary = TemporaryNode(self._context, self._source.capabilities, self._created, self.refused)
        else:
            self._open_consumer()

    def _created(self, name: str) -> None:
        self._name = name
        self._open_consumer()

    def _open_consumer(self) -> None:
        context = self._context
        session = context.global_session() if self._terms.is_global else PLAIN
        self._link = context.commands.new_link()
        context.consumers[self._link] = self
        options = {"destination": self._name, **self._terms.options}
        context.commands.add_json(Kind.OPEN_CONSUMER, options, session=session, link=self._link)

    def flow(self, flow: Flow) -> None:
        """The client grants or revokes credit, or wants to know the state."""
        if flow.link_credit is not None:
            base = 0 if flow.delivery_count is None else flow.delivery_count
            self._granted = (base + flow.link_credit) & _SERIAL
            self._drains = flow.drain is True
            self.update_credit()
        if flow.echo:
            self._write_flow()

    @property
    def _credit(self) -> int:
        """Messages that the client still accepts."""
        credit = (self._granted - self._delivered) & _SERIAL
        return credit if credit <= _SERIAL >> 1 else 0

    def update_credit(self) -> None:
        """Make the credit of the native consumer that of the client, as far as the session's window allows."""
        if not self._is_open or self._is_closed or self._cancels:
            return
        commands = self._context.commands
        wanted = min(self._credit, limits.PREFETCH) - self._native_credit
        if wanted > 0:
            wanted = min(wanted, self._session.credit_share(self) - self._native_credit)
        if wanted > 0:
            self._native_credit += wanted
            commands.add(Kind.ACKNOWLEDGE, link=self._link, amount=wanted)
        elif self._credit < self._native_credit:
            self._cancel()
        if self._drains:
            if self.is_browser:
                self._drain_browser()
            elif not self._cancels:
                self._cancel()

    def _cancel(self) -> None:
        self._cancels += 1
        self._context.commands.add(Kind.CANCEL, link=self._link)

    def revoke_credit(self) -> None:
        """The native consumer gets no more messages until the session's window opens."""
        if self._is_open and not (self._is_closed or self._cancels):
            self._cancel()

    def _drain_browser(self) -> None:
        if self._has_browsed:
            self._drained()

    def _drained(self) -> None:
        """No message is left for the credit, so the credit is used up."""
        self._drains = False
        self._delivered = self._granted
        self._write_flow(drain=True)

    def _write_flow(self, *, drain: bool = False) -> None:
        flow = self._session.session_flow(
            handle=self._attach.handle, delivery_count=self._delivered, link_credit=self._credit, drain=drain or None
        )
        self._context.write(self._session.channel, encode_performative(flow))

    def detach(self, detach: Detach) -> None:
        """The client ends the link. A durable subscription ends only with `closed`."""
        self._context.write(
            self._session.channel, encode_performative(Detach(self._attach.handle, closed=detach.closed))
        )
        self._session.detached(self._attach.handle)
        self.close()
        durable = self._terms.options.get("durable")
        if detach.closed and durable:
            unsubscribe(self._context, str(durable), is_global=self._terms.is_global)
        if detach.closed and self._temporary is not None:
            self._temporary.delete()

    def close(self) -> None:
        """Close the native consumer: its unsettled messages return to the queue."""
        if self._is_closed:
            return
        self._is_closed = True
        self._context.transactions.link_closing(self)
        self._session.forget_deliveries(self)
        if self._link and self._context.consumers.pop(self._link, None) is not None:
            seen = self._last_native if self._terms.fails_by_default or self.presettled else 0
            self.acknowledge_presettled()
            self._context.commands.add(Kind.CLOSE, link=self._link, first=seen)

    # The broker

    def opened(self) -> None:
        self._is_open = True
        attach, address = self._attach, self._source.address
        source = answered_source(self._source, self._name, address or address_of(self._name))
        target = parse_as(Target, attach.target)
        answer = Attach(
            attach.name, attach.handle, False, attach.snd_settle_mode, 0, composite(source),
            None if target is None else composite(answered_target(target, target.address)),
            initial_delivery_count=0, max_message_size=self._context.message_limit,
        )  # fmt: skip
        self._context.write(self._session.channel, encode_performative(answer))
        self.update_credit()

    def refused(self, error: LinkError) -> None:
        """The broker did not open the consumer, or refused a command about it."""
        if self._is_open:
            self._session.fail_link(self._attach.handle, error)
            return
        self._is_closed = True
        self._context.consumers.pop(self._link, None)
        refuse_attach(self._context, self._session.channel, self._attach, error)
        self._session.refused(self._attach.handle)

    def deliver(self, frame: Frame) -> None:
        _, flags, delivered, _, first, rows, data = frame
        facts = DeliveryFacts(bool(flags & _PERSISTENT), delivered, self._origin, self._context.clock_ms())
        self._native_credit -= rows
        self._delivered = (self._delivered + rows) & _SERIAL
        self._last_native = first + rows - 1
        messages = unpack_messages(Payload(data, rows, flags & FORM), facts)
        settled, session = self.presettled, self._session
        for number, message in enumerate(messages, first):
            session.transmit(self, number, message, settled=settled)
        self._unacknowledged = settled
        if self._native_credit < limits.PREFETCH // 2 and self._credit > self._native_credit:
            self.update_credit()

    def acknowledge_presettled(self) -> None:
        """Acknowledge deliveries that were settled when they were sent."""
        if self._unacknowledged and not self.is_browser:
            self._context.commands.add(Kind.ACKNOWLEDGE, link=self._link, first=self._last_native)
        self._unacknowledged = False

    def origin(self, name: str) -> None:
        self._origin = "" if name == self._name else name

    def browsed(self) -> None:
        self._has_browsed = True
        if self._drains:
            self._drained()

    def cancelled(self) -> None:
        self._cancels -= 1
        if not self._cancels:
            self._native_credit = 0
            if self._drains:
                self._drained()
            self.update_credit()

    # Settlement

    @property
    def handle(self) -> int:
        return self._attach.handle

    def settle(self, ranges: Sequence[IdRange], outcome: Any, session: int = 0) -> None:
        """Apply the outcome to these native deliveries; accepted ones in the transaction of the session, if any."""
        if self.is_browser or (self._is_closed and not session):
            return
        for first, last in ranges:
            rows, add = last - first + 1, self._context.commands.add
            if isinstance(outcome, Accepted):
                add(Kind.ACKNOWLEDGE_ROWS, session=session, link=self._link, first=first, amount=rows)
            else:
                add(Kind.ROLLBACK, flags=_flags(outcome), link=self._link, first=first, amount=rows)

    def default_outcome(self) -> Modified:
        return Modified(delivery_failed=self._terms.fails_by_default)


def _flags(outcome: Any) -> int:
    """How the messages return: to the dead letter queue, as delivered, or as if they were never delivered."""
    if isinstance(outcome, Rejected) or (isinstance(outcome, Modified) and outcome.undeliverable_here):
        return _REJECTED
    return _REDELIVERED if isinstance(outcome, Modified) and outcome.delivery_failed else 0


class SubscriptionLookup:
    """A link without a source: the client asks for a durable subscription by name, usually to unsubscribe from it."""

    def __init__(self, context: AmqpContext, session: ConsumerSession, attach: Attach) -> None:
        self._context = context
        self._session = session
        self._attach = attach
        self._name, self._is_global = subscription_name(attach.name), is_global_link(attach.name)

    def open(self) -> None:
        """Raises LinkError."""
        found = self._context.find_subscription(self._name, self._is_global)
        if found is None:
            raise LinkError(NOT_FOUND, f"there is no durable subscription {self._name[:80]!r}")
        attach = self._attach
        source = subscription_source(found.topic, shared=found.shared, is_global=self._is_global)
        answer = Attach(
            attach.name, attach.handle, False, attach.snd_settle_mode, 0, composite(source), composite(Target()),
            initial_delivery_count=0,
        )  # fmt: skip
        self._context.write(self._session.channel, encode_performative(answer))

    def flow(self, flow: Flow) -> None:
        """The link delivers nothing."""

    def detach(self, detach: Detach) -> None:
        handle, channel = self._attach.handle, self._session.channel

        def answer(error: LinkError | None) -> None:
            fields = None if error is None else error.fields()
            self._context.write(channel, encode_performative(Detach(handle, detach.closed, fields)))

        self._session.detached(handle)
        if detach.closed:
            unsubscribe(self._context, self._name, is_global=self._is_global, then=answer)
        else:
            answer(None)

    def close(self) -> None:
        """The link holds nothing."""


def unsubscribe(
    context: AmqpContext, name: str, *, is_global: bool, then: Callable[[LinkError | None], None] = lambda _: None
) -> None:
    """Delete a durable subscription, unless other consumers share it."""

    def answered(answer: JsonObject) -> None:
        then(LinkError(NOT_FOUND, str(answer["error"])) if "error" in answer else None)

    context.ask({"ask": "unsubscribe", "name": name, "global": is_global}, answered)


def refuse_attach(context: AmqpContext, channel: int, attach: Attach, error: LinkError) -> None:
    """Answer with an attach without a terminus, and a detach that has the error."""
    empty = attach._replace(
        role=not attach.role, source=None, target=None, unsettled=None, incomplete_unsettled=None,
        initial_delivery_count=None if attach.role is False else 0, max_message_size=None, offered_capabilities=None,
        desired_capabilities=None, properties=None,
    )  # fmt: skip
    context.write(channel, encode_performative(empty))
    context.write(channel, encode_performative(Detach(attach.handle, True, error.fields())))
