"""The core itself: every command of a session, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from itertools import count

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.dispatch.browser import Browsing, give_room
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.dispatch.direct import DecodedHeaders, reserve_single, try_deliver, try_deliver_reserved
from mqlab.broker.core.durability.checkpoint import carry_forward
from mqlab.broker.core.durability.pending_records import RECORD, PendingRecords
from mqlab.broker.core.durability.records import Commit, Put
from mqlab.broker.core.effects import Answer, Committed, Confirm, Finished, Opened, Requeued, RolledBack
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.flow import Flow, OverdrawnError
from mqlab.broker.core.model.delivery_ids import given_back, taken_back, taken_rows, taken_up_to
from mqlab.broker.core.model.destination_names import QUEUE, parse
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer, Producer, Session
from mqlab.broker.core.model.wake_times import Wake, set_back, wake_due
from mqlab.broker.core.monitoring import EVERY
from mqlab.broker.core.refusal import reason_against
from mqlab.broker.core.removal import Removal
from mqlab.broker.core.routing.placement import Ended, Placed, Placing, place
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.core.routing.subscriptions import ConsumerOptions, check_options, full_name, subscribe, unused
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.transactions.commit import drop_transaction, end_transaction
from mqlab.broker.core.transactions.joined_sends import join_last
from mqlab.broker.core.transactions.two_phase_commit import TwoPhaseCommit
from mqlab.broker.settings import Settings
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

DEFAULT_OPTIONS = ConsumerOptions()


class Core:
    """Commands change its state and leave effects in `effects`; the server takes them from there, in order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.context = CoreContext(wake_at=self._wake_at, sampling_interval=EVERY[settings.monitoring])
        self.effects = self.context.effects
        self.records = PendingRecords(self.effects)
        self.destinations = DestinationRegistry(settings, self.context, self.records)
        self.flow = Flow(settings, self.context)
        self.removal = Removal(self.destinations, self.records, self.flow)
        self.two_phase_commit = TwoPhaseCommit(self.destinations, self.records, self.removal, self.flow, self.effects)
        self.context.on_expired = self.removal.expired
        # Why persistent messages cannot be taken for now, or "".
        self.disk_full = ""
        self.sessions: set[Session] = set()
        self.wake_times: list[Wake] = []
        self._tie = count()

    # Links

    def open_session(
        self, owner: object, number: int, *, transacted: bool, client: str = "", user: str = ""
    ) -> Session:
        """Raises RefusedError, as all that open something, if the broker has no memory for more."""
        session = Session(owner, number, transacted, self.destinations.accounts.of(owner), client, user)
        session.account.check_open(limits.SESSION_BYTES)
        session.account.open(limits.SESSION_BYTES)
        self.sessions.add(session)
        return session

    def open_producer(self, session: Session, link: int, name: str) -> Producer:
        session.account.check_open(limits.PRODUCER_BYTES)
        destination, origin = self.destinations.destination(name)
        session.account.open(limits.PRODUCER_BYTES)
        producer = Producer(session, link, destination, self.flow.window(destination), origin)
        producer.of_channel = any(one.queue.name.startswith(TOKENS) for one in session.consumers)
        session.producers.append(producer)
        destination.producers.add(producer)
        self.flow.first_credit(producer)
        return producer

    def finish_producer(self, producer: Producer) -> None:
        """Close it in good order: `Finished` follows when all its sends are where they belong."""
        self.close_producer(producer)
        self.records.run_when_durable(producer.last_lsn, self._finished, producer)

    def close_producer(self, producer: Producer) -> None:
        producer.closed = True
        producer.session.account.open(-limits.PRODUCER_BYTES)
        self.flow.close(producer)
        producer.session.producers.remove(producer)
        producer.destination.producers.discard(producer)
        self.destinations.drop_if_unused(producer.destination)

    def open_consumer(
        self, session: Session, link: int, name: str, credit: int, options: ConsumerOptions = DEFAULT_OPTIONS, *,
        paused: bool = False,
    ) -> Consumer:  # fmt: skip
        """`Opened` follows: for a durable subscription when it is sure to last. Nothing is delivered before."""
        begun = self.records.lsn
        check_options(name, options)
        charged = limits.CONSUMER_BYTES + limits.SELECTOR_BYTES * len(options.selector)
        session.account.check_open(charged)
        kind, short = parse(name, patterns=True)
        selector = compile_selector(options.selector) if options.selector else None
        if kind == QUEUE:
            queue = self.destinations.queue_for(session, short, None if options.browse else selector)
        else:
            if options.durable and session.user:
                self.destinations.claim_subscription(session, short, options)
            registry = self.destinations
            queue = subscribe(registry.routing, session, short, options, registry.new_subscription, self.removal.delete)
            # A subscription's selector is applied when messages come.
            selector = None
        consumer = Consumer(session, link, queue, 0, paused, selector, options.exclusive, charged)
        session.account.open(charged)
        session.consumers.append(consumer)
        if options.browse:
            consumer.browsing = Browsing(queue)
        else:
            queue.attach(consumer)
        if options.durable:
            self.records.run_when_all_durable(begun, session, self._opened, consumer, credit)
        else:
            self._opened(consumer, credit)
        return consumer

    def close_consumer(self, consumer: Consumer, seen: int) -> None:
        """What it was given and did not acknowledge goes back, marked up to the last delivery its application saw."""
        self.removal.put_back(self._detach(consumer, seen, consumer.queue.messages))
        # What was reserved for it, such as its groups, is anybody's now.
        consumer.queue.dispatch()
        self.flow.look_at_memory()

    def close_session(self, session: Session) -> None:
        """Undo its transaction and let go of its links, in good order or because its connection is gone."""
        session.account.open(0 if session.closed else -limits.SESSION_BYTES)
        session.closed = True
        self.sessions.discard(session)
        for producer in [*session.producers]:
            self.close_producer(producer)
        # All of it comes back at once: otherwise later messages could reach somebody before earlier ones.
        returned = drop_transaction(session)
        consumers = [*session.consumers]
        messages = sum(consumer.queue.messages for consumer in consumers)
        for consumer in consumers:
            returned += self._detach(consumer, consumer.next_delivery, messages)
        self.removal.put_back(returned)
        for consumer in consumers:
            consumer.queue.dispatch()
        self.flow.look_at_memory()

    def close_connection(self, owner: object) -> None:
        """Its sessions are closed; its temporary queues go with it."""
        for queue in self.destinations.accounts.close(owner):
            self.removal.delete(queue)
        self.flow.look_at_memory()

    def pause(self, consumer: Consumer) -> None:
        consumer.paused = True

    def resume(self, consumer: Consumer) -> None:
        consumer.paused = False
        give_room(consumer, 0, self.effects)

    def answer_when_durable(self, since: int, answer: Answer) -> None:
        """Once all that this command said, which is all after record `since`, is durable and has had its effects."""
        self.records.run_when_all_durable(since, answer.owner, self.effects.append, answer)

    def unsubscribe(self, client: str, short: str, user: str = "") -> None:
        self.removal.delete(unused(self.destinations.routing, full_name(client, short, user)))

    # Messages

    def send(
        self, producer: Producer, payload: Payload, seq: int, *, persistent: bool, confirm: bool,
        headers: DecodedHeaders = None, cost: int | None = None,
    ) -> None:  # fmt: skip
        """`seq`: of the last row; `headers`: if already decoded; `cost`: if it is not the size of the payload."""
        session, spent, last_lsn, size = producer.session, producer.spent, producer.last_lsn, len(payload.data)
        if spent >= producer.window:
            raise OverdrawnError("the producer sends without credit")
        producer.spent = spent = spent + (size if cost is None else cost)
        at_once = not (persistent or session.transacted or (last_lsn and self.records.is_pending(last_lsn)))
        if at_once and payload.form & SINGLE and try_deliver(producer, payload, headers):
            if confirm:
                self.effects.append(Confirm(producer, seq))
            if spent * 2 >= producer.window or self.flow.short:
                self.flow.renew(producer)
            return
        target = producer.destination
        takes = isinstance(target, Queue) and not (target.full or target.closed) and (
            not persistent or (target.stored and size <= self.records.free_bytes - RECORD and not self.disk_full)
        )  # fmt: skip
        if not takes or self.context.memory > self.flow.most_memory:
            self._check_send(producer, payload, persistent)
        if session.transacted:
            self.flow.renew(producer)
            session.transaction.add(producer, Span(payload, 0, persistent=persistent))
            join_last(session)
            return
        if persistent and payload.form & SINGLE and (placed := reserve_single(producer, payload, headers)) is not None:
            put = Put(((placed[0].number, placed[1].base),), payload, producer.origin)
            answer = Confirm(producer, seq) if confirm else None
            producer.last_lsn = self.records.append_single(put, producer, answer, self._single_sent, producer, *placed)
            return
        placing = self._place(producer, payload, persistent)
        if placing.put is not None:
            record = Commit((placing.put,), placing.left_out) if placing.left_out else placing.put
            producer.last_lsn = self.records.append(record, producer)
        elif placing.again:
            # The first of its kind may still be on its way to the disk: the second is not safe before it.
            producer.last_lsn = self.records.last_pending
        if confirm:
            self.records.confirm_when_durable(producer.last_lsn, Confirm(producer, seq))
        self.records.run_when_durable(producer.last_lsn, self._sent, producer, placing.placed)

    def acknowledge(self, consumer: Consumer, up_to: int, credit: int) -> None:
        """Everything delivered up to this delivery id is done, and there is room for `credit` messages more."""
        if credit > limits.PREFETCH - consumer.credit:
            raise RefusedError(f"room for {consumer.credit + credit} messages; the limit is {limits.PREFETCH}")
        held = consumer.unacknowledged
        if len(held) == 1 and held[0][0] == up_to and held[0][1].rows == 1 and not consumer.session.transacted:
            # A message alone, and all that it has: as everywhere where each waits for its reply.
            self.removal.acknowledged(consumer.queue, (held.popleft()[1],))
        elif up_to:
            self._done(consumer, taken_up_to(consumer, up_to))
        if credit:
            give_room(consumer, credit, self.effects)

    def acknowledge_rows(self, consumer: Consumer, first: int, rows: int, within: Session | None = None) -> None:
        """Just these deliveries are done, whatever came before them; `within`: in another session's transaction."""
        self._done(consumer, taken_rows(consumer, first, rows), within)

    def receive(self, consumer: Consumer, key: Key) -> None:
        """One message by its correlation id or message id, at once or when it comes. It needs no room."""
        if consumer.browsing is not None:
            raise RefusedError("a browser receives nothing by its id")
        consumer.queue.receive(consumer, key)

    def cancel_receives(self, consumer: Consumer) -> None:
        """It has no room any more, and waits for no message."""
        consumer.queue.take_room(consumer)
        consumer.queue.cancel(consumer)

    def requeue_all(self, consumer: Consumer, seen: int) -> None:
        """All it has not acknowledged comes again, marked up to the last one its application has seen."""
        self.effects.append(Requeued(consumer))
        consumer.queue.take_room(consumer)
        self.removal.put_back(taken_back(consumer, seen))

    def requeue_rows(self, consumer: Consumer, first: int, rows: int, *, tried: bool = False) -> None:
        """These deliveries go back as if they had never left or, if they were tried, marked as delivered in vain."""
        self.removal.put_back(given_back(consumer, first, rows, tried))

    # Transactions

    def commit(self, session: Session) -> None:
        """All of it or, if anything in it was refused, nothing: then only a rollback is left."""
        ended = end_transaction(session, self.records, self._place)
        if ended.said.puts or ended.said.removes:
            session.last_lsn = self.records.append(ended.said, session)
        self.records.run_when_durable(session.last_lsn, self._committed, session, ended)

    def rollback(self, session: Session) -> None:
        """Sends are forgotten; all that was delivered comes again, so the client forgets what it has in hand."""
        self.effects.append(RolledBack(session))
        returned = drop_transaction(session)
        for consumer in session.consumers:
            consumer.queue.take_room(consumer)
            returned += taken_back(consumer, 0)
        self.removal.put_back(returned)

    def prepare(self, session: Session, xid: str, answer: Answer) -> None:
        """The first of two phases. The session begins a new transaction; this one waits for `decide`."""
        self.two_phase_commit.check(xid)
        self.two_phase_commit.prepare(xid, end_transaction(session, self.records, self._place), answer)

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        self.two_phase_commit.decide(xid, answer, commit=commit)

    # Time and disk

    def tick(self, now: int) -> None:
        """It is that late (ms since 1970): what is due then happens."""
        self.context.now_ms = now
        wake_due(self.wake_times, now)

    def clock_set_back(self, step_ms: int) -> None:
        """The wall clock shows `step_ms` less than before: no message waits longer for that than its delay says."""
        set_back([*self.destinations.all_queues()], self.two_phase_commit.placed(), self.sessions, step_ms)

    @property
    def next_wake_ms(self) -> int | None:
        return self.wake_times[0][0] if self.wake_times else None

    def on_durable(self, lsn: int, tell: Callable[[], None] = lambda: None) -> None:
        """Every record up to this number is on disk. `tell`: there are effects that others should not wait behind."""
        self.records.on_durable(lsn, tell)

    def checkpoint(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """Say again what is still needed of these ids ([first, end) of each queue): the file that has it is to go."""
        self.records.append_merged_removals()
        carry_forward(self.destinations, self.records, self.two_phase_commit, self.sessions, intervals, xids, self)

    # The parts of the commands

    def _check_send(self, producer: Producer, payload: Payload, persistent: bool) -> None:
        """Raises RefusedError. A transaction asks for its room when it ends."""
        target, records = producer.destination, self.records
        why = reason_against(target, persistent=persistent, keeps=self.destinations.has_store, disk_full=self.disk_full)
        most = self.flow.most_of_channels if producer.of_channel else self.flow.most_memory
        if not why and self.context.memory > most:
            why = f"the broker has more than {most} bytes in memory"
        size, transacted = len(payload.data), producer.session.transacted
        if persistent and not why and size > records.free_bytes - RECORD and not transacted:
            why = records.reason_no_space(size)
        if why:
            self._refuse(producer, why)

    def _refuse(self, producer: Producer, why: str) -> None:
        """Raises RefusedError. A transaction with something refused can only be rolled back."""
        session = producer.session
        if session.transacted:
            session.transaction.doom(why, session.account)
        self.flow.renew(producer)
        raise RefusedError(why)

    def _place(self, producer: Producer, payload: Payload, persistent: bool) -> Placing:
        """Ids and room on every queue the messages go to; they are not visible yet."""
        destination, sender = producer.destination, producer.session
        fresh = self.destinations.without_duplicates(producer.target, payload, persistent=persistent)
        if fresh is None:
            return Placing([], None, (), again=True)
        if isinstance(destination, Queue):
            placing = place((destination,), fresh, persistent=persistent, origin=producer.origin, sender=sender)
        else:
            origin = destination.full_name
            subscribed = self.destinations.routing.subscribed(destination)
            placing = place(subscribed, fresh, persistent=persistent, origin=origin, sender=sender)
            for queue, _ in placing.placed:
                if queue.full and queue.policy.when_full == "drop-oldest":
                    self.removal.drop_oldest(queue)
        return Placing(*placing[:3], fresh, fresh is not payload) if payload.form & COLUMNS else placing

    def _sent(self, producer: Producer, placed: Placed) -> None:
        self.removal.make_visible(placed)
        self.flow.renew(producer)

    def _single_sent(self, producer: Producer, queue: Queue, span: Span) -> None:
        if queue.closed or not try_deliver_reserved(queue, span):
            self.removal.make_visible([(queue, span)])
        self.flow.renew(producer)

    def _committed(self, session: Session, ended: Ended) -> None:
        self.removal.make_visible(ended.placed)
        self.removal.consumed(ended.removed)
        # What it sent may be on disk by now.
        self.flow.reconsider_channels(session.producers)
        if not session.closed:
            self.effects.append(Committed(session))

    def _opened(self, consumer: Consumer, credit: int) -> None:
        if consumer in consumer.session.consumers:
            self.effects.append(Opened(consumer))
            give_room(consumer, credit, self.effects)

    def _finished(self, producer: Producer) -> None:
        if not producer.session.closed:
            self.effects.append(Finished(producer))

    def _done(self, consumer: Consumer, spans: list[Span], within: Session | None = None) -> None:
        queue, session = consumer.queue, within or consumer.session
        if session.transacted:
            session.transaction.acknowledged += [(queue, span) for span in spans]
        elif spans:
            self.removal.acknowledged(queue, spans)

    def _detach(self, consumer: Consumer, seen: int, messages: int) -> Placed:
        """Take a consumer from its queue; returns what it held. A subscription that does not last is gone with it.

        `messages`: on the queues of all consumers that end together.
        """
        consumer.session.consumers.remove(consumer)
        consumer.session.account.open(-consumer.charged)
        if consumer.browsing is not None:
            consumer.browsing.closed = True
            return []
        queue = consumer.queue
        queue.detach(consumer)
        if queue.subscription is not None and not queue.subscription.durable and not queue.consumers:
            self.removal.delete_with(consumer, messages)
            return []
        return taken_back(consumer, seen)

    def _wake_at(self, when: int, queue: Queue) -> None:
        heappush(self.wake_times, (when, next(self._tie), queue))
