"""The core against a model of dictionaries, over random sequences of commands."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from mqlab.broker.core.routing.subscriptions import ConsumerOptions

from .command_strategies import CLIENT, DURABLE, RECEIVED_FROM, SENT_TO, amount, commands, selector, share, which
from .model_commands import Actions, pick
from .model_parts import SessionModel

TORTURE = bool(os.environ.get("MQLAB_TORTURE"))
pytestmark = [pytest.mark.timeout(0)] if TORTURE else []


class Commands(Actions, RuleBasedStateMachine):
    # Who takes part

    @initialize(destination=st.sampled_from(SENT_TO))
    def begin(self, destination: str) -> None:
        """Something to work with: without it half of the commands would find nothing to do."""
        for number, transacted in enumerate((False, True, False)):
            self.open_session(transacted)
            self.open_producer(number, destination)
            self.open_consumer(number, destination, 3, "", False)
        self.open_consumer(0, destination, 3, "kind > 0", False)
        self.open_consumer(1, "queue:a", 0, "", True)

    @rule(of=which, kind=st.sampled_from(["session", "producer", "consumer", "consumer", "durable"]), data=st.data())
    def somebody_comes(self, of: int, kind: str, data: st.DataObject) -> None:
        if kind == "session":
            self.open_session(data.draw(st.booleans()))
        elif kind == "producer":
            self.open_producer(of, data.draw(st.sampled_from(SENT_TO)))
        elif kind == "consumer":
            name, chosen = data.draw(st.sampled_from(RECEIVED_FROM)), data.draw(selector)
            self.open_consumer(of, name, data.draw(amount), chosen, data.draw(st.booleans()))
        else:
            self.open_durable(of, data.draw(st.sampled_from([*DURABLE])), data.draw(amount))

    @rule(of=which, kind=st.sampled_from(["producer", "consumer", "consumer", "session"]), part=share)
    def somebody_goes(self, of: int, kind: str, part: float) -> None:
        if kind == "producer" and len(self.model.producers) > 1:
            self.model.finish_producer(pick(self.model.producers, of))
        elif kind == "consumer" and self.model.consumers:
            consumer = pick(self.model.consumers, of)
            self.model.close_consumer(consumer, round(part * consumer.next_delivery))
        elif kind == "session" and len(self.model.sessions) > 1:
            self.model.close_session(pick(self.model.sessions, of))
        self.agree()

    # Messages move

    @rule(some=commands)
    def messages_move(self, some: list[tuple[object, ...]]) -> None:
        for name, *arguments in some:
            self.agrees = False
            getattr(self, f"do_{name}")(*arguments)
            self.agree()

    @rule(some=commands)
    def more_messages_move(self, some: list[tuple[object, ...]]) -> None:
        """Rules are chosen with equal chances, and this is what happens most."""
        self.messages_move(some)

    # Administration

    @rule(
        what=st.sampled_from(["browse", "carry_forward", "administer", "administer", "restart"]),
        of=which,
        data=st.data(),
    )
    def somebody_looks_after_it(self, what: str, of: int, data: st.DataObject) -> None:
        if what == "browse":
            self.browse(of, data.draw(selector))
        elif what == "carry_forward":
            self.carry_forward(1 + of % 10, data.draw(st.integers(1, 60)))
        elif what == "administer":
            self.administer(of, data.draw(st.sampled_from(["unsubscribe", "delete", "purge"])))
        else:
            self.restart()
            self.begin("queue:a")

    # The end

    def teardown(self) -> None:
        """Everything that is left can be had, once, and then nothing is left and nobody is held back."""
        if not self.agrees:
            return
        model = self.model
        for xid in [*model.prepared]:
            model.decide(xid, commit=True)
            self.agree()
        for session in [*model.sessions]:
            model.close_session(session)
            self.agree()
        self.quiet()
        model.tick(1000)
        self.agree()
        self.quiet()
        model.sessions.append(SessionModel(self.session(transacted=False)))
        for name in [*self.core.destinations.queues]:
            self.drain(f"queue:{name}", ConsumerOptions())
        for full_name in [*self.core.destinations.routing.durable]:
            name = full_name.removeprefix(f"{CLIENT}/")
            self.drain("topic:t", ConsumerOptions(selector=DURABLE[name], durable=name))
        assert not model.entries
        # Only what is open takes memory.
        assert self.core.context.memory == self.core.destinations.accounts.opened
        assert not self.core.flow.held
        assert not model.journal.messages


# The long form has 5,000 sequences of 50 steps; a step here is up to twelve commands.
TestCommands = Commands.TestCase
TestCommands.settings = settings(
    max_examples=5000 if TORTURE else 150, stateful_step_count=50, deadline=None,
    report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
