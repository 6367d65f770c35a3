"""The core against a model of dictionaries, over random sequences of commands."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mqlab.broker.core.broker import Core
from mqlab.broker.core.links import Session
from mqlab.broker.settings import Settings

from .model import ConsumerModel, Model, ProducerModel, SessionModel

# So small that queues and the broker get full within a few sends. (An Arrow batch has some 200 bytes before any body.)
SMALL = Settings(data=Path("unused"), queue_limit=1500, memory_limit=4000, producer_window=900)

which = st.integers(0, 100)
destinations = st.sampled_from(["queue:a", "queue:b", "topic:t"])
bodies = st.lists(st.integers(0, 40), min_size=1, max_size=4)


class Commands(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.core = Core(SMALL)
        self.model = Model(self.core)
        self.links = 0

    def _session(self, number: int) -> SessionModel:
        return self.model.sessions[number % len(self.model.sessions)]

    def _producer(self, number: int) -> ProducerModel:
        return self.model.producers[number % len(self.model.producers)]

    def _consumer(self, number: int) -> ConsumerModel:
        return self.model.consumers[number % len(self.model.consumers)]

    @initialize(transacted=st.booleans(), destination=destinations)
    def begin(self, transacted: bool, destination: str) -> None:
        """Something to work with: without it half of the commands would find nothing to do."""
        self.open_session(transacted)
        self.open_producer(0, destination)
        self.open_consumer(0, destination, 3)

    @rule(transacted=st.booleans())
    def open_session(self, transacted: bool) -> None:
        session = Session(self, len(self.model.sessions) + 1, transacted)
        self.model.sessions.append(SessionModel(session))

    @precondition(lambda self: self.model.sessions)
    @rule(of=which, destination=destinations)
    def open_producer(self, of: int, destination: str) -> None:
        self.links += 1
        link = self.core.open_producer(self._session(of).session, self.links, destination)
        self.model.producers.append(ProducerModel(link))

    @precondition(lambda self: self.model.sessions)
    @rule(of=which, destination=destinations, credit=st.integers(0, 6))
    def open_consumer(self, of: int, destination: str, credit: int) -> None:
        self.links += 1
        link = self.core.open_consumer(self._session(of).session, self.links, destination, credit)
        self.model.consumers.append(ConsumerModel(link, credit))

    @precondition(lambda self: self.model.producers)
    @rule(of=which, sizes=bodies, persistent=st.booleans(), confirm=st.booleans(), times=st.integers(1, 3))
    def send(self, of: int, sizes: list[int], persistent: bool, confirm: bool, times: int) -> None:
        producer = self._producer(of)
        for _ in range(times):
            if producer.credit > 0:  # as an honest client does
                self.model.send(producer, sizes, persistent=persistent, confirm=confirm)
                self.model.take_effects()

    @precondition(lambda self: self.model.consumers)
    @rule(of=which, share=st.floats(0, 1), credit=st.integers(0, 6))
    def acknowledge(self, of: int, share: float, credit: int) -> None:
        consumer = self._consumer(of)
        before = consumer.next_delivery - len(consumer.has) - 1
        self.model.acknowledge(consumer, before + round(share * len(consumer.has)), credit)

    @precondition(lambda self: self.model.sessions)
    @rule(of=which)
    def commit(self, of: int) -> None:
        if self._session(of).session.transacted:
            self.model.commit(self._session(of))

    @precondition(lambda self: self.model.sessions)
    @rule(of=which)
    def rollback(self, of: int) -> None:
        if self._session(of).session.transacted:
            self.model.rollback(self._session(of))

    @rule(share=st.floats(0, 1))
    def durable(self, share: float) -> None:
        self.model.become_durable(self.model.durable + round(share * (self.core.lsn - self.model.durable)))

    @precondition(lambda self: self.model.consumers)
    @rule(of=which)
    def pause(self, of: int) -> None:
        consumer = self._consumer(of)
        consumer.paused = True
        self.core.pause(consumer.consumer)

    @precondition(lambda self: self.model.consumers)
    @rule(of=which)
    def resume(self, of: int) -> None:
        consumer = self._consumer(of)
        consumer.paused = False
        self.core.resume(consumer.consumer)

    @precondition(lambda self: len(self.model.producers) > 1)
    @rule(of=which)
    def finish_producer(self, of: int) -> None:
        self.model.finish_producer(self._producer(of))

    @precondition(lambda self: len(self.model.consumers) > 1)
    @rule(of=which)
    def close_consumer(self, of: int) -> None:
        self.model.close_consumer(self._consumer(of))

    @precondition(lambda self: len(self.model.sessions) > 1)
    @rule(of=which)
    def close_session(self, of: int) -> None:
        self.model.close_session(self._session(of))

    @invariant()
    def agree(self) -> None:
        self.model.take_effects()
        self.model.check()

    def teardown(self) -> None:
        """Everything that is left can be had, once, and then nothing is left and nobody is held back."""
        model = self.model
        for session in [*model.sessions]:
            model.close_session(session)
            self.agree()
        model.become_durable(self.core.lsn)
        self.agree()
        last = SessionModel(Session(self, 9999, False))
        model.sessions.append(last)
        for name in list(self.core.queues):
            consumer = ConsumerModel(self.core.open_consumer(last.session, 0, f"queue:{name}", 10_000), 10_000)
            model.consumers.append(consumer)
            self.agree()
            model.acknowledge(consumer, consumer.next_delivery, 0)
            self.agree()
        assert not model.entries
        assert self.core.flow.size == 0
        assert not self.core.flow.held


# The long form has 5,000 sequences.
TestCommands = Commands.TestCase
TestCommands.settings = settings(
    max_examples=5000 if os.environ.get("MQLAB_TORTURE") else 300, stateful_step_count=50, deadline=None,
    report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow],
)
