"""The core: every command of a session, and its effects."""

from collections.abc import Callable, Sequence
from heapq import heappush
from itertools import count

from mqlab.broker import limits
from mqlab.broker.core.context import CoreContext
from mqlab.broker.core.dispatch import round_robin, selective
from mqlab.broker.core.dispatch.browser import add_credit
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.dispatch.direct import DecodedHeaders, SingleSends
from mqlab.broker.core.dispatch.receive_by_id import receive
from mqlab.broker.core.durability.checkpoint import append_checkpoint
from mqlab.broker.core.durability.paging import save_beyond_extent
from mqlab.broker.core.durability.pending_records import RECORD_BYTES, PendingRecords
from mqlab.broker.core.durability.records import Commit
from mqlab.broker.core.effects import Answer, Committed, Confirm, Finished, Opened, Requeued, RolledBack
from mqlab.broker.core.errors import CommandError
from mqlab.broker.core.flow import FlowControl, OverdrawnError
from mqlab.broker.core.model.browser_position import BrowserPosition
from mqlab.broker.core.model.delivery_ids import take_rows, take_to_requeue, take_unacknowledged, take_up_to
from mqlab.broker.core.model.destination_names import QUEUE, parse
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue, Topic
from mqlab.broker.core.model.sessions import CoreConsumer, CoreProducer, CoreSession
from mqlab.broker.core.model.wake_times import Wake, set_back, wake_due
from mqlab.broker.core.monitoring import EVERY
from mqlab.broker.core.refusal import refusal_reason
from mqlab.broker.core.removal import Removal
from mqlab.broker.core.routing.placement import EndedTransaction, Placed, Placement, place
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.core.routing.subscriptions import ConsumerOptions, check_options, full_name, subscribe, unused
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.transactions.commit import drop_transaction, end_transaction
from mqlab.broker.core.transactions.joined_sends import join_last
from mqlab.broker.core.transactions.two_phase_commit import TwoPhaseCommit
from mqlab.broker.settings import Settings
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload


class Core:
    """Commands change the state of the broker and append to `effects`, which the server runs in order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The level of monitoring now: that of the settings, until an administrator sets another.
        self.monitoring = settings.monitoring
        self.context = CoreContext(wake_at=self._wake_at, sampling_interval=EVERY[settings.monitoring])
        self.context.dispatch_round_robin, self.context.dispatch_selective = round_robin.dispatch, selective.dispatch
        self.context.save_beyond_extent = save_beyond_extent
        self.effects = self.context.effects
        self.records = PendingRecords(self.effects)
        self.destinations = DestinationRegistry(settings, self.context, self.records)
        self.flow = FlowControl(settings, self.context)
        self.removal = Removal(self.destinations, self.records, self.flow, settings.memory_limit)
        self.two_phase_commit = TwoPhaseCommit(self.destinations, self.records, self.removal, self.flow, self.effects)
        self._single_sends = SingleSends(self.records, self.flow, self.removal, self.effects)
        self.context.on_expired = self.removal.expired
        # Why the journal cannot grow now, or "".
        self.disk_full = ""
        self.sessions: set[CoreSession] = set()
        self.wake_times: list[Wake] = []
        self._tie = count()

    # Sessions, producers and consumers

    def open_session(
        self, owner: object, number: int, *, transacted: bool, client: str = "", user: str = ""
    ) -> CoreSession:
        """Raises CommandError, as `open_producer` and `open_consumer`, if the broker has no memory for more."""
        session = CoreSession(owner, number, transacted, self.destinations.accounts.of(owner), client, user)
        session.account.check_open(limits.SESSION_BYTES)
        session.account.open(limits.SESSION_BYTES)
        self.sessions.add(session)
        return session

    def open_producer(self, session: CoreSession, link: int, name: str) -> CoreProducer:
        session.account.check_open(limits.PRODUCER_BYTES)
        destination, origin = self.destinations.destination(name)
        session.account.open(limits.PRODUCER_BYTES)
        producer = CoreProducer(session, link, destination, self.flow.window(destination), origin)
        producer.of_channel = any(consumer.queue.name.startswith(TOKENS) for consumer in session.consumers)
        session.producers.append(producer)
        destination.producers.add(producer)
        self.flow.first_credit(producer)
        return producer

    def finish_producer(self, producer: CoreProducer) -> None:
        """Close a producer; `Finished` follows when the broker has handled all its sends."""
        self.close_producer(producer)
        self.flow.check_memory()
        self.records.run_when_durable(producer.last_lsn, self._finished, producer)

    def close_producer(self, producer: CoreProducer) -> None:
        producer.closed = True
        producer.session.account.open(-limits.PRODUCER_BYTES)
        self.flow.close(producer)
        producer.session.producers.remove(producer)
        producer.destination.producers.discard(producer)
        self.destinations.drop_if_unused(producer.destination)

    def open_consumer(
        self, session: CoreSession, link: int, name: str, credit: int, options: ConsumerOptions | None = None, *,
        paused: bool = False,
    ) -> CoreConsumer:  # fmt: skip
        """`Opened` follows, for a durable subscription when it is durable. No message is delivered before."""
        begun, account, options = self.records.lsn, session.account, options or ConsumerOptions()
        check_options(name, options)
        charged = limits.CONSUMER_BYTES + limits.SELECTOR_BYTES * len(options.selector)
        account.check_open(charged)
        kind, short = parse(name, patterns=True)
        selector = compile_selector(options.selector) if options.selector else None
        if kind == QUEUE:
            queue = self.destinations.queue_for(session, short, None if options.browse else selector)
        else:
            if options.durable and session.user:
                self.destinations.claim_subscription(session, short, options)
            registry = self.destinations
            queue = subscribe(registry.routing, session, short, options, registry.new_subscription, self.removal.delete)
            # A subscription's selector is applied when messages are placed.
            selector = None
        consumer = CoreConsumer(
            account, 0, paused, selector, options.exclusive, session=session, link=link, queue=queue, charged=charged
        )
        account.open(charged)
        session.consumers.append(consumer)
        if options.browse:
            consumer.browser = BrowserPosition(queue)
        else:
            queue.attach(consumer)
        if options.durable:
            self.records.run_when_all_durable(begun, session, self._opened, consumer, credit)
        else:
            self._opened(consumer, credit)
        return consumer

    def close_consumer(self, consumer: CoreConsumer, seen: int) -> None:
        """Requeue its unacknowledged messages, marked as delivered up to the last one that its application saw."""
        self.removal.requeue(self._detach(consumer, seen, consumer.queue.messages))
        # Other consumers may get its groups now.
        consumer.queue.dispatch()
        self.flow.check_memory()

    def close_session(self, session: CoreSession) -> None:
        """Roll back its transaction and close its producers and consumers."""
        session.account.open(0 if session.closed else -limits.SESSION_BYTES)
        session.closed = True
        self.sessions.discard(session)
        for producer in [*session.producers]:
            self.close_producer(producer)
        # All messages are requeued together: otherwise later ones could be delivered before earlier ones.
        unacknowledged = drop_transaction(session)
        consumers = [*session.consumers]
        messages = sum(consumer.queue.messages for consumer in consumers)
        for consumer in consumers:
            unacknowledged += self._detach(consumer, consumer.next_delivery, messages)
        self.removal.requeue(unacknowledged)
        for consumer in consumers:
            consumer.queue.dispatch()
        self.flow.check_memory()

    def close_connection(self, owner: object) -> None:
        """Delete the temporary queues of a connection without sessions."""
        for name in self.destinations.accounts.close(owner):
            self.removal.delete(self.destinations.queues[name])
        self.flow.check_memory()

    def pause(self, consumer: CoreConsumer) -> None:
        consumer.paused = True

    def resume(self, consumer: CoreConsumer) -> None:
        consumer.paused = False
        add_credit(consumer, 0, self.effects)

    def answer_when_durable(self, since: int, answer: Answer) -> None:
        """Answer when all records after `since`, those of the current command, are durable."""
        self.records.run_when_all_durable(since, answer.owner, self.effects.append, answer)

    def unsubscribe(self, client: str, short: str, user: str = "") -> None:
        self.removal.delete(unused(self.destinations.routing, full_name(client, short, user)))

    # Messages

    def send(
        self, producer: CoreProducer, payload: Payload, seq: int, *, persistent: bool, confirm: bool,
        headers: DecodedHeaders = None, cost: int | None = None,
    ) -> None:  # fmt: skip
        """`seq` is of the last row; `headers`: if decoded already; `cost`: if it is not the size of the payload."""
        session = producer.session
        if producer.spent >= producer.window:
            raise OverdrawnError("the producer sends without credit")
        producer.spent += len(payload.data) if cost is None else cost
        answer = Confirm(producer, seq) if confirm else None
        is_single = payload.form & SINGLE and not session.transacted
        if is_single and not persistent and self._single_sends.deliver(producer, payload, answer, headers):
            return
        self._check_send(producer, payload, persistent)
        if session.transacted:
            self.flow.renew(producer)
            session.transaction.add(producer, Span(payload, 0, persistent=persistent))
            join_last(session)
            return
        if is_single and persistent and self._single_sends.append(producer, payload, answer, headers):
            return
        placement = self._place(producer, payload, persistent)
        if placement.put is not None:
            record = Commit((placement.put,), placement.left_out) if placement.left_out else placement.put
            producer.last_lsn = self.records.append(record, producer)
        elif placement.has_duplicates:
            # The record of the original may not be durable yet: the duplicate is not confirmed before it.
            producer.last_lsn = self.records.last_pending
        if answer is not None:
            self.records.confirm_when_durable(producer.last_lsn, answer)
        self.records.run_when_durable(producer.last_lsn, self._sent, producer, placement.placed)

    def put(self, queue: Queue, payload: Payload, *, persistent: bool, origin: str) -> None:
        """Put a message of the broker itself on one queue, such as a retained message on a new subscription's."""
        placement = place((queue,), payload, persistent=persistent, origin=origin, sender=None)
        lsn = 0 if placement.put is None else self.records.append(placement.put, queue)
        self.records.run_when_durable(lsn, self.removal.make_visible, placement.placed)

    def acknowledge(self, consumer: CoreConsumer, up_to: int, credit: int) -> None:
        """Acknowledge all deliveries up to this id (0: none), and add credit."""
        if credit > limits.PREFETCH - consumer.credit:
            raise CommandError(f"credit for {consumer.credit + credit} messages; the limit is {limits.PREFETCH}")
        if up_to:
            self._acknowledge(consumer, take_up_to(consumer, up_to))
        if credit:
            add_credit(consumer, credit, self.effects)

    def acknowledge_rows(self, consumer: CoreConsumer, first: int, rows: int, other: CoreSession | None = None) -> None:
        """Acknowledge these deliveries only; `other`: in the transaction of that session."""
        self._acknowledge(consumer, take_rows(consumer, first, rows), other)

    def receive(self, consumer: CoreConsumer, key: Key) -> None:
        """Deliver one message by its correlation id or message id, now or when it arrives, without credit."""
        if consumer.browser is not None:
            raise CommandError("a browser cannot receive a message by id")
        receive(consumer.queue, consumer, key)

    def cancel_receives(self, consumer: CoreConsumer) -> None:
        """Revoke its credit, and cancel its receives by id."""
        consumer.queue.revoke_credit(consumer)
        consumer.queue.cancel_receives(consumer)
        self.flow.check_memory()

    def requeue_all(self, consumer: CoreConsumer, seen: int) -> None:
        """Requeue its unacknowledged messages, marked as delivered up to the last one that its application saw."""
        self.effects.append(Requeued(consumer))
        consumer.queue.revoke_credit(consumer)
        self.removal.requeue(take_unacknowledged(consumer, seen))

    def requeue_rows(self, consumer: CoreConsumer, first: int, rows: int, *, tried: bool = False) -> None:
        """Requeue these deliveries; marked as delivered only if the application tried to process them."""
        self.removal.requeue(take_to_requeue(consumer, first, rows, tried))

    def reject_rows(self, consumer: CoreConsumer, first: int, rows: int) -> None:
        """Move these deliveries to the dead letter queue: the application cannot process them."""
        self.removal.reject(take_to_requeue(consumer, first, rows, tried=True))
        self.flow.check_memory()

    # Transactions

    def commit(self, session: CoreSession) -> None:
        """Commit all of it. Raises CommandError if a part was refused: then it can only be rolled back."""
        ended = end_transaction(session, self.records, self.flow, self._place)
        if ended.record.puts or ended.record.removes:
            session.last_lsn = self.records.append(ended.record, session)
        self.records.run_when_durable(session.last_lsn, self._committed, session, ended)

    def rollback(self, session: CoreSession) -> None:
        """Drop its sends and requeue its messages; the client drops those that it holds."""
        self.effects.append(RolledBack(session))
        unacknowledged = drop_transaction(session)
        for consumer in session.consumers:
            consumer.queue.revoke_credit(consumer)
            unacknowledged += take_unacknowledged(consumer, 0)
        self.removal.requeue(unacknowledged)
        self.flow.check_memory()

    def prepare(self, session: CoreSession, xid: str, answer: Answer) -> None:
        """The first phase: the transaction waits for `decide`, and the session begins a new one."""
        self.two_phase_commit.check(xid)
        self.two_phase_commit.prepare(xid, end_transaction(session, self.records, self.flow, self._place), answer)
        self.flow.check_memory()

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        self.two_phase_commit.decide(xid, answer, commit=commit)

    # Time and disk

    def tick(self, now: int) -> None:
        """The time is `now` (ms since 1970): wake the queues whose time has come."""
        self.context.now_ms = now
        wake_due(self.wake_times, now)

    def clock_set_back(self, step_ms: int) -> None:
        """The wall clock was set back by `step_ms`: delays last as long as before."""
        set_back([*self.destinations.all_queues()], self.two_phase_commit.placed(), self.sessions, step_ms)

    def on_durable(self, lsn: int, run_effects: Callable[[], None] = lambda: None) -> None:
        """Every record up to this number is durable. `run_effects` is called when there are confirmations to send."""
        self.records.on_durable(lsn, run_effects)

    def record_growth(self, grown: int) -> None:
        """The process has grown by so many bytes since its start: the broker grants less before it grows too much."""
        accounts = self.destinations.accounts
        beside = self.flow.record_growth(grown, self.context.memory - accounts.bytes - accounts.opened)
        accounts.limit_transactions(beside)

    def checkpoint(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """Append again what is still needed of these ids ([first, end) of each queue): their journal file is to go."""
        self.records.append_merged_removals()
        append_checkpoint(self.destinations, self.records, self.two_phase_commit, self, self.sessions, intervals, xids)

    # Parts of the commands

    def _check_send(self, producer: CoreProducer, payload: Payload, persistent: bool) -> None:
        """Raises CommandError: a transaction can then only be rolled back. Its disk space is checked at its commit."""
        session, target, records = producer.session, producer.destination, self.records
        has_store, size = self.destinations.has_store, len(payload.data)
        why = refusal_reason(target, persistent=persistent, has_store=has_store, disk_full=self.disk_full)
        most = self.flow.most_of_channels if producer.of_channel else self.flow.most_memory
        if not why and self.context.memory > most:
            why = f"the broker has more than {most} bytes in memory"
        if not why and isinstance(target, Topic):
            why = self.flow.reason_full(target, size)
        if persistent and not why and size > records.free_bytes - RECORD_BYTES and not session.transacted:
            why = records.reason_no_space(size)
        if why:
            if session.transacted:
                session.transaction.doom(why, session.account)
            self.flow.renew(producer)
            raise CommandError(why)

    def _place(self, producer: CoreProducer, payload: Payload, persistent: bool) -> Placement:
        """Reserve the messages on every queue that they go to; they are not visible yet."""
        destination, sender = producer.destination, producer.session
        fresh = self.destinations.without_duplicates(producer.target, payload, persistent=persistent)
        if fresh is None:
            return Placement([], None, (), has_duplicates=True)
        if isinstance(destination, Queue):
            placement = place((destination,), fresh, persistent=persistent, origin=producer.origin, sender=sender)
        else:
            origin = destination.full_name
            subscribed = self.destinations.routing.subscribed(destination)
            placement = place(subscribed, fresh, persistent=persistent, origin=origin, sender=sender)
            for queue, _ in placement.placed:
                if queue.full and queue.policy.when_full == "drop-oldest":
                    self.removal.drop_oldest(queue)
        return Placement(*placement[:3], fresh, fresh is not payload) if payload.form & COLUMNS else placement

    def _sent(self, producer: CoreProducer, placed: Placed) -> None:
        self.removal.make_visible(placed)
        self.flow.renew(producer)

    def _committed(self, session: CoreSession, ended: EndedTransaction) -> None:
        self.removal.make_visible(ended.placed)
        self.removal.committed(ended.removed)
        self.flow.check_memory()
        # Its sends may be paged out by now.
        self.flow.reconsider_channels(session.producers)
        if not session.closed:
            self.effects.append(Committed(session))

    def _opened(self, consumer: CoreConsumer, credit: int) -> None:
        if consumer in consumer.session.consumers:
            self.effects.append(Opened(consumer))
            add_credit(consumer, credit, self.effects)

    def _finished(self, producer: CoreProducer) -> None:
        if not producer.session.closed:
            self.effects.append(Finished(producer))

    def _acknowledge(self, consumer: CoreConsumer, spans: list[Span], within: CoreSession | None = None) -> None:
        queue, session = consumer.queue, within or consumer.session
        if session.transacted:
            session.transaction.acknowledged += [(queue, span) for span in spans]
        elif spans:
            self.removal.acknowledged(queue, spans)

    def _detach(self, consumer: CoreConsumer, seen: int, messages: int) -> Placed:
        """Detach a consumer; returns the messages to requeue. `messages`: of all queues whose consumers close now."""
        consumer.session.consumers.remove(consumer)
        consumer.session.account.open(-consumer.charged)
        if consumer.browser is not None:
            consumer.browser.closed = True
            return []
        queue = consumer.queue
        queue.detach(consumer)
        if queue.subscription is not None and not queue.subscription.durable and not queue.consumers:
            self.removal.delete_with(consumer, messages)
            return []
        return take_unacknowledged(consumer, seen)

    def _wake_at(self, when: int, queue: Queue) -> None:
        heappush(self.wake_times, (when, next(self._tie), queue))
