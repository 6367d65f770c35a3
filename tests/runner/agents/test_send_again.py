"""A producer in a run with faults: it sends again what was not confirmed, but not for ever."""

import asyncio
import time
from math import inf
from pathlib import Path

import numpy as np

from mqlab.drivers import DriverError, Sender
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import CONFIRMED_CODE, UNKNOWN_CODE, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.producer import ProducerRole
from mqlab.runner.timeline import Timeline
from runner.points import point


class Refusing(Sender):
    """Refuses so many messages, or does not answer, before it takes all others."""

    def __init__(self, refusals: float, *, answers: bool) -> None:
        self._left = refusals
        self._answers = answers

    async def send(
        self,
        bodies: Matrix,  # noqa: ARG002
        *,
        wait: bool,  # noqa: ARG002
        properties: Properties | None = None,  # noqa: ARG002
        headers: MessageHeaders | None = None,  # noqa: ARG002
    ) -> None:
        if self._left > 0:
            self._left -= 1
            await (asyncio.sleep(0) if self._answers else asyncio.Event().wait())
            raise DriverError("refused")

    async def wait_accepted(self, max_pending: int) -> None:
        pass

    async def close(self) -> None:
        pass


def played(folder: RunFolder, refusals: float, *, drain: float, answers: bool = True) -> dict[str, np.ndarray]:
    """The sends of a producer that was to send for 0.3 s."""
    faulty = point(send="confirmed", measure=0.2, drain=drain)
    recorder = Recorder(folder, run=1, agent=1)

    async def play() -> None:
        sender = Refusing(refusals, answers=answers)

        async def reopen() -> Sender:
            await asyncio.sleep(0.01)
            return sender

        producer = ProducerRole(Role("producer", 0, 0), faulty, sender, recorder, reopen=reopen)
        await producer.play(Timeline.of(faulty, time.monotonic_ns()))
        assert producer.counters.sent > 0

    asyncio.run(play())
    return recorder.sends.take()


def test_a_producer_of_a_system_that_never_comes_back_ends_after_the_drain(tmp_path: Path) -> None:
    sends = played(RunFolder(tmp_path), inf, drain=2.0)
    assert {*sends["outcome"]} == {UNKNOWN_CODE}
    assert {*sends["first_seq"]} == {0}, "it sends the same message again"
    assert len(sends["first_seq"]) > 1


def test_a_producer_of_a_system_that_never_answers_ends_after_the_drain(tmp_path: Path) -> None:
    sends = played(RunFolder(tmp_path), inf, drain=0.1, answers=False)
    assert [*sends["outcome"]] == [UNKNOWN_CODE]


def test_a_producer_goes_on_when_the_system_is_back(tmp_path: Path) -> None:
    sends = played(RunFolder(tmp_path), 3, drain=600.0)
    assert [*sends["outcome"][:4]] == [UNKNOWN_CODE, UNKNOWN_CODE, UNKNOWN_CODE, CONFIRMED_CODE]
    assert [*sends["first_seq"][:4]] == [0, 0, 0, 0], "it sends the same message again"
    assert {*sends["outcome"][3:]} == {CONFIRMED_CODE}
