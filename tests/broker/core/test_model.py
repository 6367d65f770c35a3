"""The core against a model of dictionaries, over random sequences of commands."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mqlab.broker.core.broker import Core
from mqlab.broker.core.links import Session
from mqlab.broker.core.records import Prepare, Put
from mqlab.broker.core.subscribing import Wish
from mqlab.broker.policy import Policies, Rule
from mqlab.broker.settings import Settings
from mqlab.wire.bodies import decode

from .checks import check
from .commands import NOW
from .effects import browsed, take_effects
from .model import Model
from .parts import SELECTORS, VISIBLE, ConsumerModel, ProducerModel, SessionModel, Wanted
from .restarting import restart

T = TypeVar("T")

# So small that queues and the broker get full within a few sends. (A batch with columns has some 700 bytes before any
# body.) What two queues and the topic do differently is in their policies.
SMALL = Settings.flat(
    data=Path("unused"), queue_limit=4000, memory_limit=11_000, producer_window=2500, redelivery_limit=2,
    policies=Policies((
        Rule("queue:b", {"retrieval": "scan", "expired": "queue:late"}), Rule("topic:#", {"redelivery_limit": 0}),
    )),
)  # fmt: skip
# One queue more often than the others: competition is where order can go wrong.
SENT_TO = ("queue:a", "queue:a", "queue:b", "topic:t")
RECEIVED_FROM = (*SENT_TO, "queue:a", "topic:*", "queue:dead-letters", "queue:late")
# Durable subscriptions of one client: their names, and what they choose.
DURABLE = {"all": "", "some": "kind = 0"}
CLIENT = "client"

# What messages can be like, the plain ones first.
WANTED = [
    Wanted(size, kind, key, priority, delay, life)
    for delay, life in ((0, 0), (0, 0), (5, 0), (0, 5), (0, 12), (5, 3))
    for priority in (None, 9, 1) for key in (None, "x", "y") for kind in (None, 0, 1, 2) for size in (0, 40)
]  # fmt: skip

which, amount, share = st.integers(0, 100), st.integers(0, 6), st.floats(0, 1)
selector = st.sampled_from(["", *SELECTORS])
key = st.sampled_from(["x", "y"])
messages = st.lists(st.integers(0, len(WANTED) - 1), min_size=1, max_size=4)
send = st.tuples(st.just("send"), which, messages, st.booleans(), st.booleans())
acknowledge = st.tuples(st.just("acknowledge"), which, share, amount)
single = st.tuples(st.just("acknowledge_rows"), which, which, st.integers(1, 3))
receive = st.tuples(st.just("receive"), which, key)
durable = st.tuples(st.just("durable"), share)
tick = st.tuples(st.just("tick"), st.sampled_from([1, 3, 6, 15]))
commit = st.tuples(st.sampled_from(["commit", "commit", "prepare"]), which)
rollback = st.tuples(st.just("rollback"), which, amount)
decide = st.tuples(st.just("decide"), which, st.booleans())
pause = st.tuples(st.sampled_from(["pause", "resume", "resume", "cancel"]), which)
back = st.tuples(st.just("take_back"), which, share, amount)
traffic = st.one_of(
    send, send, send, send, send, send, acknowledge, acknowledge, acknowledge, single, receive, receive, durable,
    durable, tick, commit, rollback, decide, pause, back,
)  # fmt: skip
commands = st.lists(traffic, min_size=4, max_size=12)


def pick(among: Sequence[T], number: int) -> T:
    return among[number % len(among)]


class Commands(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        core = Core(SMALL)
        core.tick(NOW)
        self.model = Model(core)
        self.links = 0
        self.agree = True

    @property
    def core(self) -> Core:
        return self.model.core

    def _agree(self) -> None:
        self.agree = False
        take_effects(self.model)
        check(self.model)
        self.agree = True

    # Who takes part

    @initialize(destination=st.sampled_from(SENT_TO))
    def begin(self, destination: str) -> None:
        """Something to work with: without it half of the commands would find nothing to do."""
        for number, transacted in enumerate((False, True, False)):
            self._open_session(transacted)
            self._open_producer(number, destination)
            self._open_consumer(number, destination, 3, "", False)
        self._open_consumer(0, destination, 3, "kind > 0", False)
        self._open_consumer(1, "queue:a", 0, "", True)

    @rule(of=which, kind=st.sampled_from(["session", "producer", "consumer", "consumer", "durable"]), data=st.data())
    def somebody_comes(self, of: int, kind: str, data: st.DataObject) -> None:
        if kind == "session":
            self._open_session(data.draw(st.booleans()))
        elif kind == "producer":
            self._open_producer(of, data.draw(st.sampled_from(SENT_TO)))
        elif kind == "consumer":
            name, chosen = data.draw(st.sampled_from(RECEIVED_FROM)), data.draw(selector)
            self._open_consumer(of, name, data.draw(amount), chosen, data.draw(st.booleans()))
        else:
            self._open_durable(of, data.draw(st.sampled_from([*DURABLE])), data.draw(amount))

    @rule(of=which, kind=st.sampled_from(["producer", "consumer", "consumer", "session"]), part=share)
    def somebody_goes(self, of: int, kind: str, part: float) -> None:
        if kind == "producer" and len(self.model.producers) > 1:
            self.model.finish_producer(pick(self.model.producers, of))
        elif kind == "consumer" and self.model.consumers:
            consumer = pick(self.model.consumers, of)
            self.model.close_consumer(consumer, round(part * consumer.next_delivery))
        elif kind == "session" and len(self.model.sessions) > 1:
            self.model.close_session(pick(self.model.sessions, of))
        self._agree()

    def _open_session(self, transacted: bool) -> None:
        self.links += 1
        self.model.sessions.append(SessionModel(self._session(transacted=transacted)))

    def _session(self, *, transacted: bool) -> Session:
        return self.core.open_session(self, self.links, transacted=transacted, client=CLIENT)

    def _open_producer(self, of: int, destination: str) -> None:
        self.links += 1
        link = self.core.open_producer(pick(self.model.sessions, of).session, self.links, destination)
        self.model.producers.append(ProducerModel(link))
        self._agree()

    def _open_consumer(self, of: int, name: str, credit: int, chosen: str, keyed: bool) -> None:
        keyed = keyed and name.startswith("queue:")
        self._open(of, name, 0 if keyed else credit, Wish(selector="" if keyed else chosen), keyed=keyed)

    def _open_durable(self, of: int, name: str, credit: int) -> None:
        queue = self.core.house.routing.durable.get(f"{CLIENT}/{name}")
        if queue is None or not queue.consumers:
            self._open(of, "topic:t", credit, Wish(selector=DURABLE[name], durable=name))

    def _open(self, of: int, name: str, credit: int, wish: Wish, *, keyed: bool = False) -> ConsumerModel:
        self.links += 1
        link = self.core.open_consumer(pick(self.model.sessions, of).session, self.links, name, credit, wish)
        # A subscription's selector is applied when messages come: its consumer takes all there is.
        chosen = wish.selector if name.startswith("queue:") else ""
        self.model.consumers.append(ConsumerModel(link, credit, chosen, keyed))
        self._agree()
        return self.model.consumers[-1]

    # Messages move

    @rule(some=commands)
    def messages_move(self, some: list[tuple[object, ...]]) -> None:
        for name, *arguments in some:
            getattr(self, f"_{name}")(*arguments)
            self._agree()

    @rule(some=commands)
    def more_messages_move(self, some: list[tuple[object, ...]]) -> None:
        """Rules are chosen with equal chances, and this is what happens most."""
        self.messages_move(some)

    def _send(self, of: int, wanted: list[int], persistent: bool, confirm: bool) -> None:
        able = [producer for producer in self.model.producers if producer.credit > 0]  # as an honest client does
        if able:
            self.model.send(pick(able, of), [WANTED[one] for one in wanted], persistent=persistent, confirm=confirm)

    def _holding(self, of: int) -> ConsumerModel | None:
        """Those who have something to acknowledge go first."""
        consumers = [one for one in self.model.consumers if one.has] or self.model.consumers
        return pick(consumers, of) if consumers else None

    def _acknowledge(self, of: int, part: float, credit: int) -> None:
        """A share of what it has, which may end inside a batch."""
        if consumer := self._holding(of):
            up_to = consumer.has[round(part * (len(consumer.has) - 1))][0] if consumer.has else 0
            self.model.acknowledge(consumer, up_to if part else 0, 0 if consumer.keyed else credit)

    def _acknowledge_rows(self, of: int, at: int, rows: int) -> None:
        if consumer := self._holding(of):
            first = pick(consumer.has, at)[0] if consumer.has else at
            self.model.acknowledge_rows(consumer, first, rows)

    def _receive(self, of: int, wanted: str) -> None:
        keyed = [one for one in self.model.consumers if one.keyed]
        if keyed:
            self.model.receive(pick(keyed, of), wanted)

    def _take_back(self, of: int, part: float, credit: int) -> None:
        if consumer := self._holding(of):
            self.model.take_back(consumer, round(part * consumer.next_delivery))
            self._agree()
            self._make_room(consumer, credit)

    def _make_room(self, consumer: ConsumerModel, credit: int) -> None:
        """As a client does that has forgotten what it had."""
        self.model.acknowledge(consumer, 0, 0 if consumer.keyed else credit)

    def _durable(self, part: float) -> None:
        self.model.become_durable(self.model.durable + round(part * (self.core.ledger.lsn - self.model.durable)))

    def _tick(self, later: int) -> None:
        self.model.tick(later)

    def _transacted(self, of: int) -> SessionModel | None:
        sessions = [one for one in self.model.sessions if one.session.transacted]
        return pick(sessions, of) if sessions else None

    def _commit(self, of: int) -> None:
        if session := self._transacted(of):
            self.model.commit(session)

    def _prepare(self, of: int) -> None:
        if (session := self._transacted(of)) and len(self.model.prepared) < 3:
            self.links += 1
            self.model.prepare(session, f"x{self.links}")

    def _decide(self, of: int, commit: bool) -> None:
        if self.model.prepared:
            self.model.decide(pick([*self.model.prepared], of), commit=commit)

    def _rollback(self, of: int, credit: int) -> None:
        if session := self._transacted(of):
            self.model.rollback(session)
            self._agree()
            for consumer in self.model.consumers:
                if consumer.consumer.session is session.session:
                    self._make_room(consumer, credit)
                    self._agree()

    def _pause(self, of: int) -> None:
        if self.model.consumers:
            consumer = pick(self.model.consumers, of)
            consumer.paused = True
            self.core.pause(consumer.consumer)

    def _resume(self, of: int) -> None:
        if self.model.consumers:
            consumer = pick(self.model.consumers, of)
            consumer.paused = False
            self.core.resume(consumer.consumer)

    def _cancel(self, of: int) -> None:
        if self.model.consumers:
            self.model.cancel(pick(self.model.consumers, of))

    # Administration

    @rule(what=st.sampled_from(["browse", "carry_forward", "administer", "administer", "restart"]), of=which, data=st.data())
    def somebody_looks_after_it(self, what: str, of: int, data: st.DataObject) -> None:
        if what == "browse":
            self._browse(of, data.draw(selector))
        elif what == "carry_forward":
            self._carry_forward(1 + of % 30, data.draw(st.integers(1, 30)))
        elif what == "administer":
            self._administer(of, data.draw(st.sampled_from(["unsubscribe", "delete", "purge"])))
        else:
            self._restart()

    def _browse(self, of: int, chosen: str) -> None:
        queues = [*self.core.house.queues.values()]
        if not queues:
            return
        queue = pick(queues, of)
        session = self._session(transacted=False)
        browser = self.core.open_consumer(session, 0, queue.full_name, 1000, Wish(selector=chosen, browse=True))
        seen = browsed(self.model, browser)
        there = [one for one in self.model.entries if one.queue is queue and one.state == VISIBLE]
        chosen_ones = [one for one in there if SELECTORS[chosen](one.about.kind)]
        assert seen == [one.body for one in sorted(chosen_ones, key=lambda one: one.place)]
        self.core.close_session(session)
        self._agree()

    def _administer(self, of: int, what: str) -> None:
        queues = [one for one in self.core.house.all() if not one.consumers and not one.producers]
        if what == "unsubscribe":
            names = [one.name for one in queues if one.subscription is not None and one.subscription.durable]
            if names:
                self.model.unsubscribe(CLIENT, pick(names, of).removeprefix(f"{CLIENT}/"))
        elif what == "delete":
            deletable = [one for one in queues if one.name in ("a", "b")]
            if deletable:
                self.model.delete(pick(deletable, of))
        elif self.core.house.queues:
            self.model.purge(pick([*self.core.house.queues.values()], of))
        self._agree()

    def _carry_forward(self, first: int, rows: int) -> None:
        """What is said again is what is needed of these ids, each once."""
        model, ids = self.model, range(first, first + rows)
        self.core.carry_forward({number: [(first, first + rows)] for number in self.core.house.numbered}, [*model.prepared])
        model.read_records()
        said = [one.record for one in model.appended]
        puts = [record for record in said if isinstance(record, Put)]
        told = [(put.targets[0][0], put.targets[0][1] + row, body) for put in puts for row, body in enumerate(decode(put.payload).tolist())]
        needed = [(one.queue.number, one.id, one.body) for one in model.entries if one.kept and one.id in ids]
        assert sorted(told) == sorted(needed)
        assert [record for record in said if isinstance(record, Prepare)] == [one.said for one in model.prepared.values()]
        self._agree()

    def _restart(self) -> None:
        self._quiet()
        restart(self.model)
        self._agree()
        self.begin("queue:a")

    # The end

    def _quiet(self) -> None:
        """Everything is durable, and so is what follows from that."""
        while self.model.durable < self.core.ledger.lsn:
            self.model.become_durable(self.core.ledger.lsn)
            self._agree()

    def teardown(self) -> None:
        """Everything that is left can be had, once, and then nothing is left and nobody is held back."""
        if not self.agree:
            return
        model = self.model
        for xid in [*model.prepared]:
            model.decide(xid, commit=True)
            self._agree()
        for session in [*model.sessions]:
            model.close_session(session)
            self._agree()
        self._quiet()
        model.tick(1000)
        self._agree()
        self._quiet()
        model.sessions.append(SessionModel(self._session(transacted=False)))
        for name in [*self.core.house.queues]:
            self._drain(f"queue:{name}", Wish())
        for full_name in [*self.core.house.routing.durable]:
            name = full_name.removeprefix(f"{CLIENT}/")
            self._drain("topic:t", Wish(selector=DURABLE[name], durable=name))
        assert not model.entries
        assert self.core.desk.memory == 0
        assert not self.core.flow.held
        assert not model.journal.messages

    def _drain(self, name: str, wish: Wish) -> None:
        consumer = self._open(0, name, 10_000, wish)
        self.model.acknowledge(consumer, consumer.next_delivery, 0)
        self._agree()


# The long form has 5,000 sequences of 50 steps; a step here is up to twelve commands.
TestCommands = Commands.TestCase
TestCommands.settings = settings(
    max_examples=5000 if os.environ.get("MQLAB_TORTURE") else 100, stateful_step_count=50, deadline=None,
    report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
