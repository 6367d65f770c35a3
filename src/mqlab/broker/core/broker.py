"""The core itself: every command of a session, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from itertools import count

from mqlab.broker import limits
from mqlab.broker.core.context import Desk
from mqlab.broker.core.dispatch.browser import Browsing, give_room
from mqlab.broker.core.dispatch.correlation_index import Key
from mqlab.broker.core.dispatch.direct import Known, hand_over, pick_up, set_down
from mqlab.broker.core.durability.checkpoint import carry_forward
from mqlab.broker.core.durability.pending_records import RECORD, Ledger
from mqlab.broker.core.durability.records import Commit, Put
from mqlab.broker.core.effects import Answer, Committed, Confirm, Finished, Opened, RolledBack, TakenBack
from mqlab.broker.core.errors import RefusedError
from mqlab.broker.core.flow import Flow, OverdrawnError
from mqlab.broker.core.model.delivery_ids import given_back, taken_back, taken_rows, taken_up_to
from mqlab.broker.core.model.destination_names import QUEUE, parse
from mqlab.broker.core.model.destinations import House
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Consumer, Producer, Session
from mqlab.broker.core.model.wake_times import Wake, set_back, wake_due
from mqlab.broker.core.monitoring import EVERY
from mqlab.broker.core.refusal import reason_against
from mqlab.broker.core.removal import Leaving
from mqlab.broker.core.routing.placement import Ended, Placed, Placing, place
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.core.routing.subscriptions import Wish, check_wish, full_name, subscribe, unused
from mqlab.broker.core.selectors import compile_selector
from mqlab.broker.core.transactions.commit import drop_transaction, end_transaction
from mqlab.broker.core.transactions.joined_sends import join_last
from mqlab.broker.core.transactions.two_phase_commit import Preparing
from mqlab.broker.settings import Settings
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

PLAIN = Wish()


class Core:
    """Commands change its state and leave effects in `effects`; the server takes them from there, in order."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.desk = Desk(wake_at=self._wake_at, every=EVERY[settings.monitoring])
        self.effects = self.desk.effects
        self.ledger = Ledger(self.effects)
        self.house = House(settings, self.desk, self.ledger)
        self.flow = Flow(settings, self.desk)
        self.leaving = Leaving(self.house, self.ledger, self.flow)
        self.preparing = Preparing(self.house, self.ledger, self.leaving, self.flow, self.effects)
        self.desk.on_expired = self.leaving.expired
        # Why persistent messages cannot be taken for now, or "".
        self.disk_full = ""
        self.sessions: set[Session] = set()
        self.wakes: list[Wake] = []
        self._tie = count()

    # Links

    def open_session(
        self, owner: object, number: int, *, transacted: bool, client: str = "", user: str = ""
    ) -> Session:
        """Raises RefusedError, as all that open something, if the broker has no memory for more."""
        session = Session(owner, number, transacted, self.house.accounts.of(owner), client, user)
        session.account.check_open(limits.SESSION_BYTES)
        session.account.open(limits.SESSION_BYTES)
        self.sessions.add(session)
        return session

    def open_producer(self, session: Session, link: int, name: str) -> Producer:
        session.account.check_open(limits.PRODUCER_BYTES)
        destination, origin = self.house.destination(name)
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
        self.ledger.after(producer.last_lsn, self._finished, producer)

    def close_producer(self, producer: Producer) -> None:
        producer.closed = True
        producer.session.account.open(-limits.PRODUCER_BYTES)
        self.flow.close(producer)
        producer.session.producers.remove(producer)
        producer.destination.producers.discard(producer)
        self.house.let_go(producer.destination)

    def open_consumer(
        self, session: Session, link: int, name: str, credit: int, wish: Wish = PLAIN, *, paused: bool = False
    ) -> Consumer:
        """`Opened` follows: for a durable subscription when it is sure to last. Nothing is delivered before."""
        begun = self.ledger.lsn
        check_wish(name, wish)
        charged = limits.CONSUMER_BYTES + limits.SELECTOR_BYTES * len(wish.selector)
        session.account.check_open(charged)
        kind, short = parse(name, patterns=True)
        selector = compile_selector(wish.selector) if wish.selector else None
        if kind == QUEUE:
            queue = self.house.queue_for(session, short, None if wish.browse else selector)
        else:
            if wish.durable and session.user:
                self.house.claim_subscription(session, short, wish)
            queue = subscribe(
                self.house.routing, session, short, wish, self.house.new_subscription, self.leaving.delete
            )
            # A subscription's selector is applied when messages come.
            selector = None
        consumer = Consumer(session, link, queue, 0, paused, selector, wish.exclusive, charged)
        session.account.open(charged)
        session.consumers.append(consumer)
        if wish.browse:
            consumer.browsing = Browsing(queue)
        else:
            queue.attach(consumer)
        if wish.durable:
            self.ledger.after_all(begun, session, self._opened, consumer, credit)
        else:
            self._opened(consumer, credit)
        return consumer

    def close_consumer(self, consumer: Consumer, seen: int) -> None:
        """What it was given and did not acknowledge goes back, marked up to the last delivery its application saw."""
        self.leaving.put_back(self._detach(consumer, seen, consumer.queue.messages))
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
        self.leaving.put_back(returned)
        for consumer in consumers:
            consumer.queue.dispatch()
        self.flow.look_at_memory()

    def close_connection(self, owner: object) -> None:
        """Its sessions are closed; its temporary queues go with it."""
        for queue in self.house.accounts.close(owner):
            self.leaving.delete(queue)
        self.flow.look_at_memory()

    def pause(self, consumer: Consumer) -> None:
        consumer.paused = True

    def resume(self, consumer: Consumer) -> None:
        consumer.paused = False
        give_room(consumer, 0, self.effects)

    def answer_after(self, since: int, answer: Answer) -> None:
        """Once all that this command said, which is all after record `since`, is durable and has had its effects."""
        self.ledger.after_all(since, answer.owner, self.effects.append, answer)

    def unsubscribe(self, client: str, short: str, user: str = "") -> None:
        self.leaving.delete(unused(self.house.routing, full_name(client, short, user)))

    # Messages

    def send(
        self, producer: Producer, payload: Payload, seq: int, *, persistent: bool, confirm: bool,
        headers: Known = None, cost: int | None = None,
    ) -> None:  # fmt: skip
        """`seq`: of the last row; `headers`: if already decoded; `cost`: if it is not the size of the payload."""
        session, spent, last_lsn = producer.session, producer.spent, producer.last_lsn
        if spent >= producer.window:
            raise OverdrawnError("the producer sends without credit")
        producer.spent = spent = spent + (len(payload.data) if cost is None else cost)
        at_once = not (persistent or session.transacted or (last_lsn and self.ledger.is_awaited(last_lsn)))
        if at_once and payload.form & SINGLE and hand_over(producer, payload, headers):
            if confirm:
                self.effects.append(Confirm(producer, seq))
            if spent * 2 >= producer.window or self.flow.short:
                self.flow.renew(producer)
            return
        target = producer.destination
        takes = isinstance(target, Queue) and not (target.full or target.closed) and (
            not persistent or (target.stored and len(payload.data) <= self.ledger.room - RECORD and not self.disk_full)
        )  # fmt: skip
        if not takes or self.desk.memory > self.flow.most_memory:
            self._check_send(producer, payload, persistent)
        if session.transacted:
            self.flow.renew(producer)
            session.transaction.add(producer, Span(payload, 0, persistent=persistent))
            join_last(session)
            return
        if persistent and payload.form & SINGLE and (alone := set_down(producer, payload, headers)) is not None:
            queue, span = alone
            put = Put(((queue.number, span.base),), payload, producer.origin)
            told = Confirm(producer, seq) if confirm else None
            producer.last_lsn = self.ledger.keep(put, producer, told, self._sent_alone, producer, queue, span)
            return
        placing = self._place(producer, payload, persistent)
        if placing.put is not None:
            record = Commit((placing.put,), placing.left_out) if placing.left_out else placing.put
            producer.last_lsn = self.ledger.append(record, producer)
        elif placing.again:
            # The first of its kind may still be on its way to the disk: the second is not safe before it.
            producer.last_lsn = self.ledger.last_awaited
        if confirm:
            self.ledger.confirm_after(producer.last_lsn, Confirm(producer, seq))
        self.ledger.after(producer.last_lsn, self._sent, producer, placing.placed)

    def acknowledge(self, consumer: Consumer, up_to: int, credit: int) -> None:
        """Everything delivered up to this delivery id is done, and there is room for `credit` messages more."""
        if credit > limits.PREFETCH - consumer.credit:
            raise RefusedError(f"room for {consumer.credit + credit} messages; the limit is {limits.PREFETCH}")
        held = consumer.unacknowledged
        if len(held) == 1 and held[0][0] == up_to and held[0][1].rows == 1 and not consumer.session.transacted:
            # A message alone, and all that it has: as everywhere where each waits for its reply.
            self.leaving.acknowledged(consumer.queue, (held.popleft()[1],))
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

    def cancel(self, consumer: Consumer) -> None:
        """It has no room any more, and waits for no message."""
        consumer.queue.take_room(consumer)
        consumer.queue.cancel(consumer)

    def take_back(self, consumer: Consumer, seen: int) -> None:
        """All it has not acknowledged comes again, marked up to the last one its application has seen."""
        self.effects.append(TakenBack(consumer))
        consumer.queue.take_room(consumer)
        self.leaving.put_back(taken_back(consumer, seen))

    def give_back(self, consumer: Consumer, first: int, rows: int, *, tried: bool = False) -> None:
        """These deliveries go back as if they had never left or, if they were tried, marked as delivered in vain."""
        self.leaving.put_back(given_back(consumer, first, rows, tried))

    # Transactions

    def commit(self, session: Session) -> None:
        """All of it or, if anything in it was refused, nothing: then only a rollback is left."""
        ended = end_transaction(session, self.ledger, self._place)
        if ended.said.puts or ended.said.removes:
            session.last_lsn = self.ledger.append(ended.said, session)
        self.ledger.after(session.last_lsn, self._committed, session, ended)

    def rollback(self, session: Session) -> None:
        """Sends are forgotten; all that was delivered comes again, so the client forgets what it has in hand."""
        self.effects.append(RolledBack(session))
        returned = drop_transaction(session)
        for consumer in session.consumers:
            consumer.queue.take_room(consumer)
            returned += taken_back(consumer, 0)
        self.leaving.put_back(returned)

    def prepare(self, session: Session, xid: str, answer: Answer) -> None:
        """The first of two phases. The session begins a new transaction; this one waits for `decide`."""
        self.preparing.check(xid)
        self.preparing.prepare(xid, end_transaction(session, self.ledger, self._place), answer)

    def decide(self, xid: str, answer: Answer, *, commit: bool) -> None:
        self.preparing.decide(xid, answer, commit=commit)

    # Time and disk

    def tick(self, now: int) -> None:
        """It is that late (ms since 1970): what is due then happens."""
        self.desk.now = now
        wake_due(self.wakes, now)

    def clock_set_back(self, step_ms: int) -> None:
        """The wall clock shows `step_ms` less than before: no message waits longer for that than its delay says."""
        set_back([*self.house.all()], self.preparing.placed(), self.sessions, step_ms)

    @property
    def next_wake(self) -> int | None:
        return self.wakes[0][0] if self.wakes else None

    def durable(self, lsn: int, tell: Callable[[], None] = lambda: None) -> None:
        """Every record up to this number is on disk. `tell`: there are effects that others should not wait behind."""
        self.ledger.durable(lsn, tell)

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """Say again what is still needed of these ids ([first, end) of each queue): the file that has it is to go."""
        self.ledger.append_consumed()
        carry_forward(self.house, self.ledger, self.preparing, self.sessions, intervals, xids, self)

    # The parts of the commands

    def _check_send(self, producer: Producer, payload: Payload, persistent: bool) -> None:
        """Raises RefusedError. A transaction asks for its room when it ends."""
        target, ledger = producer.destination, self.ledger
        why = reason_against(target, persistent=persistent, keeps=self.house.keeps, disk_full=self.disk_full)
        most = self.flow.most_of_channels if producer.of_channel else self.flow.most_memory
        if not why and self.desk.memory > most:
            why = f"the broker has more than {most} bytes in memory"
        if persistent and not why and len(payload.data) > ledger.room - RECORD and not producer.session.transacted:
            why = ledger.lacks_room(len(payload.data))
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
        fresh = self.house.without_duplicates(producer.target, payload, persistent=persistent)
        if fresh is None:
            return Placing([], None, (), again=True)
        if isinstance(destination, Queue):
            placing = place((destination,), fresh, persistent=persistent, origin=producer.origin, sender=sender)
        else:
            origin = destination.full_name
            subscribed = self.house.routing.subscribed(destination)
            placing = place(subscribed, fresh, persistent=persistent, origin=origin, sender=sender)
            for queue, _ in placing.placed:
                if queue.full and queue.policy.when_full == "drop-oldest":
                    self.leaving.drop_oldest(queue)
        return Placing(*placing[:3], fresh, fresh is not payload) if payload.form & COLUMNS else placing

    def _sent(self, producer: Producer, placed: Placed) -> None:
        self.leaving.make_visible(placed)
        self.flow.renew(producer)

    def _sent_alone(self, producer: Producer, queue: Queue, span: Span) -> None:
        if queue.closed or not pick_up(queue, span):
            self.leaving.make_visible([(queue, span)])
        self.flow.renew(producer)

    def _committed(self, session: Session, ended: Ended) -> None:
        self.leaving.make_visible(ended.placed)
        self.leaving.consumed(ended.removed)
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
            self.leaving.acknowledged(queue, spans)

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
            self.leaving.delete_with(consumer, messages)
            return []
        return taken_back(consumer, seen)

    def _wake_at(self, when: int, queue: Queue) -> None:
        heappush(self.wakes, (when, next(self._tie), queue))
