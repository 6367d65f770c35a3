"""A session of an AMQP connection: its links, its windows, and the settlement of deliveries."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.server.adapter.id_ranges import IdRange, ranges_of
from mqlab.broker.server.amqp.consumer_link import ConsumerLink, SubscriptionLookup, refuse_attach
from mqlab.broker.server.amqp.context import AmqpContext
from mqlab.broker.server.amqp.coordinator import CoordinatorLink
from mqlab.broker.server.amqp.deliveries import OutgoingTransfers
from mqlab.broker.server.amqp.errors import (
    HANDLE_IN_USE,
    LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
    WINDOW_VIOLATION,
    LinkError,
    SessionError,
)
from mqlab.broker.server.amqp.producer_link import IncomingLink, SenderLink
from mqlab.broker.server.amqp.termini import consumer_terms
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Coordinator,
    Detach,
    Disposition,
    End,
    Flow,
    Modified,
    Received,
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
Link = ConsumerLink | SubscriptionLookup | IncomingLink


class AmqpSession:
    """A session has one channel number in both directions, and a link one handle."""

    def __init__(self, context: AmqpContext, channel: int, begin: Begin, due: "dict[AmqpSession, None]") -> None:
        """`due`: the sessions whose `end_turn` is called; the session adds itself when it may have something to write.

        A connection may have hundreds of sessions, and a turn concerns a few.
        """
        self.channel = channel
        self._context = context
        self._due = due
        self._links: dict[int, Link] = {}
        self._next_incoming = begin.next_outgoing_id
        self._incoming_window = limits.AMQP_WINDOW
        self._outgoing = OutgoingTransfers(context, channel, begin.incoming_window)
        # Deliveries to the client that are not settled: the link, and the delivery id in the native protocol.
        self._unsettled: dict[int, tuple[ConsumerLink, int]] = {}
        # Outcomes of deliveries from the client that it does not know yet.
        self._outcomes: list[tuple[int, Encoded]] = []
        self._needing_credit: dict[IncomingLink, None] = {}
        # Links that have less credit at the broker than the client grants, because of its window.
        self._short_of_window: dict[ConsumerLink, None] = {}
        # Links whose deliveries were settled when they were sent, and are not acknowledged yet.
        self._presettled: dict[ConsumerLink, None] = {}
        # Handles of links that the broker has detached; the client's frames for them are ignored until its detach.
        self._failed_handles: set[int] = set()
        # Links that the client has detached, by their handle; the answers follow the outcomes of their deliveries.
        self._detaching: dict[int, IncomingLink] = {}
        # The client has ended the session; the broker has not.
        self.is_ending = False

    def answer(self) -> Begin:
        return Begin(self.channel, 0, self._incoming_window, _SERIAL, limits.AMQP_LINKS - 1)

    # Frames of the client

    @property
    def links(self) -> int:
        return len(self._links)

    def attach(self, attach: Attach, *, has_room: bool) -> None:
        """Raises SessionError and AmqpDecodeError. `has_room`: the connection may have one more link."""
        if attach.handle in self._links:
            raise SessionError(HANDLE_IN_USE, f"handle {attach.handle} is in use")
        if attach.handle >= limits.AMQP_LINKS:
            raise SessionError(LIMIT_EXCEEDED, f"a session has at most {limits.AMQP_LINKS} links")
        self._failed_handles.discard(attach.handle)
        try:
            if not has_room:
                raise LinkError(LIMIT_EXCEEDED, f"a connection has at most {limits.LINKS_A_CONNECTION} links")
            link = self._link(attach)
            self._links[attach.handle] = link
            link.open()
        except LinkError as error:
            self._links.pop(attach.handle, None)
            refuse_attach(self._context, self.channel, attach, error)
            self._failed_handles.add(attach.handle)

    def _link(self, attach: Attach) -> "ConsumerLink | SubscriptionLookup | SenderLink | CoordinatorLink":
        if attach.role:
            source = parse_as(Source, attach.source)
            if source is None:
                return SubscriptionLookup(self._context, self, attach)
            return ConsumerLink(self._context, self, attach, source, consumer_terms(attach, source))
        target = Target() if attach.target is None else parse(attach.target)
        if isinstance(target, Coordinator):
            return CoordinatorLink(self._context, self, attach)
        if not isinstance(target, Target):
            raise AmqpDecodeError("the target of a link is neither a target nor a coordinator")
        return SenderLink(self._context, self, attach, target)

    def detach(self, detach: Detach) -> None:
        """Raises SessionError."""
        if detach.handle in self._failed_handles:
            self._failed_handles.discard(detach.handle)
            return
        self._linked(detach.handle).detach(detach)

    def flow(self, flow: Flow) -> None:
        """Raises SessionError."""
        self._outgoing.flow(flow)
        self._update_credit()
        if flow.handle is not None:
            if flow.handle not in self._failed_handles:
                self._linked(flow.handle).flow(flow)
        elif flow.echo:
            self._context.write(self.channel, encode_performative(self.session_flow()))

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Raises SessionError."""
        self._next_incoming = (self._next_incoming + 1) & _SERIAL
        self._incoming_window -= 1
        if self._incoming_window < limits.AMQP_WINDOW // 2:
            self._due[self] = None
        if self._incoming_window < 0:
            raise SessionError(WINDOW_VIOLATION, "more transfers than the window of the session allows")
        if transfer.handle in self._failed_handles:
            return
        link = self._linked(transfer.handle)
        if not isinstance(link, IncomingLink):
            raise SessionError(UNATTACHED_HANDLE, f"handle {transfer.handle} is not a link of a sender")
        try:
            link.transfer(transfer, payload)
        except LinkError as error:
            self.fail_link(transfer.handle, error)

    def disposition(self, disposition: Disposition) -> None:
        """The client settles deliveries, or tells an outcome. Raises SessionError and AmqpDecodeError."""
        if not disposition.role:
            # The client has settled what it sent: the broker did so before.
            return
        state = None if disposition.state is None else parse(disposition.state)
        if (state is None and not disposition.settled) or isinstance(state, Received):
            return
        first, last = disposition.first, disposition.first if disposition.last is None else disposition.last
        deliveries = [number for number in _serials(first, last, self._unsettled) if number in self._unsettled]
        by_link: dict[ConsumerLink, list[int]] = {}
        for number in deliveries:
            link, native = self._unsettled.pop(number)
            by_link.setdefault(link, []).append(native)
        settled = bool(disposition.settled)
        if isinstance(state, TransactionalState):
            self._settle_in_transaction(state, deliveries, by_link, settled=settled)
            return
        for link, natives in by_link.items():
            link.settle(ranges_of(sorted(natives)), link.default_outcome() if state is None else state)
        if not settled and deliveries and state is not None:
            answer = Disposition(False, first, last, True, composite(state))
            self._context.write(self.channel, encode_performative(answer))

    def _settle_in_transaction(
        self,
        state: TransactionalState,
        deliveries: Sequence[int],
        by_link: dict[ConsumerLink, list[int]],
        *,
        settled: bool,
    ) -> None:
        if not by_link:
            # The client settles what an ended transaction has settled already.
            return
        try:
            transaction = self._context.transactions.get(state.txn_id)
        except LinkError as error:
            raise SessionError(error.condition, str(error)) from None
        outcome = None if state.outcome is None else parse(state.outcome)
        for link, natives in by_link.items():
            ranges = ranges_of(sorted(natives))
            if settled:
                restored = None
            else:
                restored = [(number, (link, native)) for number, native in zip(deliveries, natives, strict=False)]
            transaction.settlements.append(
                LinkSettlement(link, ranges, link.default_outcome() if outcome is None else outcome, self, restored)
            )

    def restore(self, deliveries: Iterable[tuple[int, tuple[ConsumerLink, int]]]) -> None:
        """A transaction was rolled back: the client may settle these deliveries again."""
        self._unsettled.update(deliveries)

    def end(self) -> None:
        """The client ends the session: the broker does so after the outcomes of all deliveries, see `end_turn`."""
        self.is_ending = True
        self._due[self] = None
        for link in [*self._links.values()]:
            if isinstance(link, IncomingLink):
                link.detach(None)
            else:
                link.close()
        self._links.clear()

    def fail(self, error: SessionError) -> None:
        """The broker ends the session."""
        self._context.producers.flush()
        for link in (*self._links.values(), *self._detaching.values()):
            link.close()
        self._links.clear()
        self._context.write(self.channel, encode_performative(End(error.fields())))

    def clear(self) -> None:
        """The connection is lost."""
        for link in (*self._links.values(), *self._detaching.values()):
            if isinstance(link, IncomingLink):
                link.drop_begun()
        for kept in (self._links, self._detaching, self._unsettled, self._outcomes, self._short_of_window):
            kept.clear()
        self._outgoing.clear()

    # For the links

    def transmit(self, link: ConsumerLink, number: int, message: bytes, *, settled: bool) -> None:
        was_full = self._is_full
        delivery = self._outgoing.send(link.handle, message, settled=settled)
        if self._is_full and not was_full:
            self._revoke_credit()
        if settled:
            self._presettled[link] = None
            self._due[self] = None
        else:
            self._unsettled[delivery] = link, number

    @property
    def _is_full(self) -> bool:
        """Whether many messages wait for the client's window."""
        return self._outgoing.waiting_bytes > limits.AMQP_UNSENT

    def credit_share(self, link: ConsumerLink) -> int:
        """The messages that a link may get, so that few wait for the client's window. It hears when that opens."""
        self._short_of_window[link] = None
        return 0 if not self._outgoing.room else max(1, self._outgoing.room // len(self._links))

    def _update_credit(self) -> None:
        """The client's window has changed."""
        if self._short_of_window and self._outgoing.room:
            links, self._short_of_window = self._short_of_window, {}
            for link in links:
                link.update_credit()

    def _revoke_credit(self) -> None:
        """The links get no more messages from the broker until the window opens."""
        for link in self._links.values():
            if isinstance(link, ConsumerLink):
                link.revoke_credit()

    def session_flow(self, **fields: Any) -> Flow:
        self._incoming_window = limits.AMQP_WINDOW
        return Flow(self._next_incoming, self._incoming_window, self._outgoing.next_id, _SERIAL, **fields)

    def settle_incoming(self, delivery: int, state: Encoded) -> None:
        self._outcomes.append((delivery, state))
        self._due[self] = None

    def detached(self, handle: int) -> None:
        self._links.pop(handle, None)

    def detaching(self, link: IncomingLink) -> None:
        self._links.pop(link.handle, None)
        self._detaching[link.handle] = link
        self._due[self] = None

    def is_detaching(self, handle: int) -> bool:
        return handle in self._detaching

    def refused(self, handle: int) -> None:
        self._links.pop(handle, None)
        self._failed_handles.add(handle)

    def forget_deliveries(self, link: ConsumerLink) -> None:
        self._short_of_window.pop(link, None)
        self._unsettled = {number: entry for number, entry in self._unsettled.items() if entry[0] is not link}

    def needs_credit(self, link: IncomingLink) -> None:
        self._needing_credit[link] = None
        self._due[self] = None

    def _linked(self, handle: int) -> Link:
        link = self._links.get(handle)
        if link is None:
            raise SessionError(UNATTACHED_HANDLE, f"there is no link with handle {handle}")
        return link

    def fail_link(self, handle: int, error: LinkError) -> None:
        link = self._links.pop(handle, None)
        self._context.write(self.channel, encode_performative(Detach(handle, True, error.fields())))
        self._failed_handles.add(handle)
        if link is not None:
            link.close()

    # The end of a turn

    @property
    def has_unsettled(self) -> bool:
        """Whether the client does not know the outcome of a delivery yet."""
        links = (*self._links.values(), *self._detaching.values())
        return any(isinstance(link, IncomingLink) and link.has_unsettled for link in links)

    @property
    def is_due(self) -> bool:
        """Whether something waits that the end of a later turn may write."""
        return bool(self._needing_credit or self._detaching or self.is_ending)

    def end_turn(self) -> bool:
        """Write what the frames of this turn have caused. Return whether the session has ended."""
        self._acknowledge_presettled()
        self._write_outcomes()
        for link in [link for link in self._detaching.values() if not link.has_unsettled]:
            del self._detaching[link.handle]
            link.detached()
        if not self.is_ending or self._detaching:
            return False
        self._context.write(self.channel, encode_performative(End()))
        return True

    def _write_outcomes(self) -> None:
        """Write outcomes, consecutive deliveries with the same outcome in one frame; then grant credit."""
        outcomes, self._outcomes = self._outcomes, []
        begin = 0
        for at in range(1, len(outcomes) + 1):
            if at < len(outcomes) and outcomes[at] == ((outcomes[at - 1][0] + 1) & _SERIAL, outcomes[begin][1]):
                continue
            first, last, state = outcomes[begin][0], outcomes[at - 1][0], outcomes[begin][1]
            disposition = Disposition(True, first, None if first == last else last, True, state)
            self._context.write(self.channel, encode_performative(disposition))
            begin = at
        for link in [*self._needing_credit]:
            if link.grant_credit():
                del self._needing_credit[link]
        if self._incoming_window < limits.AMQP_WINDOW // 2:
            self._context.write(self.channel, encode_performative(self.session_flow()))

    def _acknowledge_presettled(self) -> None:
        """The deliveries are with the socket."""
        for link in self._presettled:
            link.acknowledge_presettled()
        self._presettled.clear()


class LinkSettlement:
    """Deliveries that a transaction settles. `restored`: those that stay unsettled after a rollback."""

    def __init__(
        self,
        link: ConsumerLink,
        ranges: Sequence[IdRange],
        outcome: Any,
        session: AmqpSession,
        restored: Sequence[tuple[int, tuple[ConsumerLink, int]]] | None,
    ) -> None:
        self._link = link
        self._ranges = ranges
        self._outcome = outcome
        self._session = session
        self._restored = restored

    def commit(self, session: int) -> None:
        self._link.settle(self._ranges, self._outcome, session)

    def roll_back(self) -> None:
        if self._restored is None:
            self._link.settle(self._ranges, Modified(delivery_failed=True))
        else:
            self._session.restore(self._restored)

    def belongs_to(self, link: object) -> bool:
        return self._link is link


def _serials(first: int, last: int, known: Iterable[int]) -> Iterable[int]:
    """The delivery ids from first to last; a client may name more than it ever got."""
    count = ((last - first) & _SERIAL) + 1
    unsettled = [*known] if count > 1 else []
    if count > 1 and count > len(unsettled):
        return [number for number in unsettled if (number - first) & _SERIAL < count]
    return [(first + at) & _SERIAL for at in range(count)]
