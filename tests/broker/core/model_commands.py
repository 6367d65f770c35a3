"""The commands of the model's state machine: each one chooses a client that may send it."""

from collections.abc import Sequence
from typing import TypeVar

from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Prepare, Put
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.routing.subscriptions import ConsumerOptions
from mqlab.wire.native.bodies import decode

from .checks import check
from .command_strategies import CLIENT, DURABLE, SMALL, WANTED
from .commands import NOW
from .effects import browsed, take_effects
from .model_parts import SELECTORS, VISIBLE, ConsumerModel, ProducerModel, SessionModel
from .model_restart import restart
from .reference_model import Model

T = TypeVar("T")


def pick(among: Sequence[T], number: int) -> T:
    return among[number % len(among)]


class Actions:
    """Methods whose name begins with `do_` are single commands; core and model are compared after each."""

    def __init__(self) -> None:
        super().__init__()
        core = Core(SMALL)
        core.tick(NOW)
        self.model = Model(core)
        self.links = 0
        # False from a command on until it is known that core and model agree about it.
        self.agrees = True

    @property
    def core(self) -> Core:
        return self.model.core

    def agree(self) -> None:
        self.agrees = False
        take_effects(self.model)
        check(self.model)
        self.agrees = True

    def open_session(self, transacted: bool) -> None:
        self.links += 1
        self.model.sessions.append(SessionModel(self.session(transacted=transacted)))

    def session(self, *, transacted: bool) -> CoreSession:
        return self.core.open_session(self, self.links, transacted=transacted, client=CLIENT)

    def open_producer(self, of: int, destination: str) -> None:
        self.links += 1
        link = self.core.open_producer(pick(self.model.sessions, of).session, self.links, destination)
        self.model.producers.append(ProducerModel(link))
        self.agree()

    def open_consumer(self, of: int, name: str, credit: int, chosen: str, keyed: bool) -> None:
        keyed = keyed and name.startswith("queue:")
        self.open(of, name, 0 if keyed else credit, ConsumerOptions(selector="" if keyed else chosen), keyed=keyed)

    def open_durable(self, of: int, name: str, credit: int) -> None:
        queue = self.core.destinations.routing.durable.get(f"{CLIENT}/{name}")
        if queue is None or not queue.consumers:
            self.open(of, "topic:t", credit, ConsumerOptions(selector=DURABLE[name], durable=name))

    def open(self, of: int, name: str, credit: int, wish: ConsumerOptions, *, keyed: bool = False) -> ConsumerModel:
        self.links += 1
        link = self.core.open_consumer(pick(self.model.sessions, of).session, self.links, name, credit, wish)
        # A subscription's selector is applied when messages come: its consumer takes all there is.
        chosen = wish.selector if name.startswith("queue:") else ""
        # A durable subscription must be sure to last before anything is given.
        waits = bool(wish.durable and self.core.records.last_pending)
        consumer = ConsumerModel(link, 0 if waits else credit, chosen, keyed)
        self.model.consumers.append(consumer)
        self.agree()
        if waits:
            consumer.credit = credit
            self.quiet()
        return consumer

    def do_send(self, of: int, wanted: list[int], persistent: bool, confirm: bool) -> None:
        able = [producer for producer in self.model.producers if producer.credit > 0]  # as an honest client does
        if able:
            self.model.send(pick(able, of), [WANTED[one] for one in wanted], persistent=persistent, confirm=confirm)

    def _holding(self, of: int) -> ConsumerModel | None:
        """Those who have something to acknowledge go first."""
        consumers = [one for one in self.model.consumers if one.has] or self.model.consumers
        return pick(consumers, of) if consumers else None

    def do_acknowledge(self, of: int, part: float, credit: int) -> None:
        """A share of what it has, which may end inside a batch."""
        if consumer := self._holding(of):
            up_to = consumer.has[round(part * (len(consumer.has) - 1))][0] if consumer.has else 0
            self.model.acknowledge(consumer, up_to if part else 0, 0 if consumer.keyed else credit)

    def do_acknowledge_rows(self, of: int, at: int, rows: int) -> None:
        if consumer := self._holding(of):
            first = pick(consumer.has, at)[0] if consumer.has else at
            self.model.acknowledge_rows(consumer, first, rows)

    def do_receive(self, of: int, wanted: str) -> None:
        keyed = [one for one in self.model.consumers if one.keyed]
        if keyed:
            self.model.receive(pick(keyed, of), wanted)

    def do_take_back(self, of: int, part: float, credit: int) -> None:
        if consumer := self._holding(of):
            self.model.take_back(consumer, round(part * consumer.next_delivery))
            self.agree()
            self._make_room(consumer, credit)

    def _make_room(self, consumer: ConsumerModel, credit: int) -> None:
        """As a client does that has forgotten what it had."""
        self.model.acknowledge(consumer, 0, 0 if consumer.keyed else credit)

    def do_durable(self, part: float) -> None:
        self.model.become_durable(self.model.durable + round(part * (self.core.records.lsn - self.model.durable)))

    def do_tick(self, later: int) -> None:
        self.model.tick(later)

    def _transacted(self, of: int) -> SessionModel | None:
        sessions = [one for one in self.model.sessions if one.session.transacted]
        return pick(sessions, of) if sessions else None

    def do_commit(self, of: int) -> None:
        if session := self._transacted(of):
            self.model.commit(session)

    def do_prepare(self, of: int) -> None:
        if (session := self._transacted(of)) and len(self.model.prepared) < 3:
            self.links += 1
            self.model.prepare(session, f"x{self.links}")

    def do_decide(self, of: int, commit: bool) -> None:
        if self.model.prepared:
            self.model.decide(pick([*self.model.prepared], of), commit=commit)

    def do_rollback(self, of: int, credit: int) -> None:
        if session := self._transacted(of):
            self.model.rollback(session)
            self.agree()
            for consumer in self.model.consumers:
                if consumer.consumer.session is session.session:
                    self._make_room(consumer, credit)
                    self.agree()

    def do_pause(self, of: int) -> None:
        if self.model.consumers:
            consumer = pick(self.model.consumers, of)
            consumer.paused = True
            self.core.pause(consumer.consumer)

    def do_resume(self, of: int) -> None:
        if self.model.consumers:
            consumer = pick(self.model.consumers, of)
            consumer.paused = False
            self.core.resume(consumer.consumer)

    def do_cancel(self, of: int) -> None:
        if self.model.consumers:
            self.model.cancel(pick(self.model.consumers, of))

    def browse(self, of: int, chosen: str) -> None:
        queues = [*self.core.destinations.queues.values()]
        if not queues:
            return
        queue = pick(queues, of)
        session = self.session(transacted=False)
        browser = self.core.open_consumer(
            session, 0, queue.full_name, 1000, ConsumerOptions(selector=chosen, browse=True)
        )
        seen = browsed(self.model, browser)
        there = [one for one in self.model.entries if one.queue is queue and one.state == VISIBLE]
        chosen_ones = [one for one in there if SELECTORS[chosen](one.about.kind)]
        assert seen == [one.body for one in sorted(chosen_ones, key=lambda one: one.place)]
        self.core.close_session(session)
        self.agree()

    def administer(self, of: int, what: str) -> None:
        queues = [one for one in self.core.destinations.all_queues() if not one.consumers and not one.producers]
        if what == "unsubscribe":
            names = [one.name for one in queues if one.subscription is not None and one.subscription.durable]
            if names:
                self.model.unsubscribe(CLIENT, pick(names, of).removeprefix(f"{CLIENT}/"))
        elif what == "delete":
            deletable = [one for one in queues if one.name in ("a", "b")]
            if deletable:
                self.model.delete(pick(deletable, of))
        elif self.core.destinations.queues:
            self.model.purge(pick([*self.core.destinations.queues.values()], of))
        self.agree()

    def carry_forward(self, first: int, rows: int) -> None:
        """What is said again is what is needed of these ids, each once."""
        model, ids = self.model, range(first, first + rows)
        self.core.checkpoint(
            {number: [(first, first + rows)] for number in self.core.destinations.numbered}, [*model.prepared]
        )
        model.read_records()
        said = [one.record for one in model.appended]
        puts = [record for record in said if isinstance(record, Put)]
        told = [
            (put.targets[0][0], put.targets[0][1] + row, body)
            for put in puts
            for row, body in enumerate(decode(put.payload).tolist())
        ]
        needed = [(one.queue.number, one.id, one.body) for one in model.entries if one.kept and one.id in ids]
        assert sorted(told) == sorted(needed)
        assert [record for record in said if isinstance(record, Prepare)] == [
            one.said for one in model.prepared.values()
        ]
        self.agree()

    def restart(self) -> None:
        self.quiet()
        restart(self.model)
        self.agree()

    def quiet(self) -> None:
        """Everything is durable, and so is what follows from that."""
        while self.model.durable < self.core.records.lsn:
            self.model.become_durable(self.core.records.lsn)
            self.agree()

    def drain(self, name: str, wish: ConsumerOptions) -> None:
        consumer = self.open(0, name, 10_000, wish)
        self.model.acknowledge(consumer, consumer.next_delivery, 0)
        self.agree()
