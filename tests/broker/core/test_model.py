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
from mqlab.broker.settings import Settings

from .model import Model
from .parts import ConsumerModel, ProducerModel, SessionModel

T = TypeVar("T")

# So small that queues and the broker get full within a few sends. (An Arrow batch has some 200 bytes before any body.)
SMALL = Settings(data=Path("unused"), queue_limit=1500, memory_limit=4000, producer_window=900)
# One queue more often than the others: competition is where order can go wrong.
DESTINATIONS = ("queue:a", "queue:a", "queue:b", "topic:t")

which, amount, share = st.integers(0, 100), st.integers(0, 6), st.floats(0, 1)
bodies = st.lists(st.integers(0, 40), min_size=1, max_size=4)
send = st.tuples(st.just("send"), which, bodies, st.booleans(), st.booleans())
acknowledge = st.tuples(st.just("acknowledge"), which, share, amount)
durable = st.tuples(st.just("durable"), share)
commit = st.tuples(st.just("commit"), which)
rollback = st.tuples(st.just("rollback"), which, amount)
pause = st.tuples(st.sampled_from(["pause", "resume"]), which)
# Traffic, most of it; between two rules that change who takes part.
traffic = st.one_of(send, send, send, acknowledge, acknowledge, acknowledge, durable, durable, commit, rollback, pause)


def pick(among: Sequence[T], number: int) -> T:
    return among[number % len(among)]


class Commands(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = Core(SMALL)
        self.model = Model(self.core)
        self.links = 0

    @initialize(destination=st.sampled_from(DESTINATIONS))
    def begin(self, destination: str) -> None:
        """Something to work with: without it half of the commands would find nothing to do."""
        for number, transacted in enumerate((False, True, False)):
            self.open_session(transacted)
            self.open_producer(number, destination)
            self.open_consumer(number, destination, 3)

    @rule(commands=st.lists(traffic, min_size=1, max_size=12))
    def messages_move(self, commands: list[tuple[object, ...]]) -> None:
        for name, *arguments in commands:
            getattr(self, f"_{name}")(*arguments)
            self._agree()

    def _send(self, of: int, sizes: list[int], persistent: bool, confirm: bool) -> None:
        able = [producer for producer in self.model.producers if producer.credit > 0]  # as an honest client does
        if able:
            self.model.send(pick(able, of), sizes, persistent=persistent, confirm=confirm)

    def _acknowledge(self, of: int, part: float, credit: int) -> None:
        """Those who have something to acknowledge go first; a share of it, which may end inside a batch."""
        consumers = [one for one in self.model.consumers if one.has] or self.model.consumers
        if consumers:
            consumer = pick(consumers, of)
            before = consumer.next_delivery - len(consumer.has) - 1
            self.model.acknowledge(consumer, before + round(part * len(consumer.has)), credit)

    def _durable(self, part: float) -> None:
        self.model.become_durable(self.model.durable + round(part * (self.core.lsn - self.model.durable)))

    def _transacted(self, of: int) -> SessionModel | None:
        sessions = [one for one in self.model.sessions if one.session.transacted]
        return pick(sessions, of) if sessions else None

    def _commit(self, of: int) -> None:
        if session := self._transacted(of):
            self.model.commit(session)

    def _rollback(self, of: int, credit: int) -> None:
        if session := self._transacted(of):
            self.model.rollback(session)
            self._agree()
            for consumer in self.model.consumers:
                if consumer.consumer.session is session.session:
                    # As a client does: it has forgotten what it had, and makes room anew.
                    self.model.acknowledge(consumer, 0, credit)
                    self.model.take_effects()

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

    @rule(transacted=st.booleans())
    def open_session(self, transacted: bool) -> None:
        self.links += 1
        self.model.sessions.append(SessionModel(Session(self, self.links, transacted)))

    @rule(of=which, destination=st.sampled_from(DESTINATIONS))
    def open_producer(self, of: int, destination: str) -> None:
        self.links += 1
        link = self.core.open_producer(pick(self.model.sessions, of).session, self.links, destination)
        self.model.producers.append(ProducerModel(link))
        self._agree()

    @rule(of=which, destination=st.sampled_from(DESTINATIONS), credit=amount)
    def open_consumer(self, of: int, destination: str, credit: int) -> None:
        self.links += 1
        link = self.core.open_consumer(pick(self.model.sessions, of).session, self.links, destination, credit)
        self.model.consumers.append(ConsumerModel(link, credit))
        self._agree()

    @rule(of=which, kind=st.sampled_from(["producer", "consumer", "consumer", "session"]))
    def close(self, of: int, kind: str) -> None:
        if kind == "producer" and len(self.model.producers) > 1:
            self.model.finish_producer(pick(self.model.producers, of))
        elif kind == "consumer" and self.model.consumers:
            self.model.close_consumer(pick(self.model.consumers, of))
        elif kind == "session" and len(self.model.sessions) > 1:
            self.model.close_session(pick(self.model.sessions, of))
        self._agree()

    def _agree(self) -> None:
        self.model.take_effects()
        self.model.check()

    def teardown(self) -> None:
        """Everything that is left can be had, once, and then nothing is left and nobody is held back."""
        model = self.model
        for session in [*model.sessions]:
            model.close_session(session)
            self._agree()
        model.become_durable(self.core.lsn)
        self._agree()
        last = SessionModel(Session(self, 0, False))
        model.sessions.append(last)
        for name in list(self.core.queues):
            consumer = ConsumerModel(self.core.open_consumer(last.session, 0, f"queue:{name}", 10_000), 10_000)
            model.consumers.append(consumer)
            self._agree()
            model.acknowledge(consumer, consumer.next_delivery, 0)
            self._agree()
        assert not model.entries
        assert self.core.flow.size == 0
        assert not self.core.flow.held


# The long form has 5,000 sequences of 50 steps; a step here is up to twelve commands.
TestCommands = Commands.TestCase
TestCommands.settings = settings(
    max_examples=5000 if os.environ.get("MQLAB_TORTURE") else 250, stateful_step_count=50, deadline=None,
    report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
