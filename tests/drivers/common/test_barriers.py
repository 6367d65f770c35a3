import asyncio

import pytest
import uvloop

from mqlab.drivers import DriverError
from mqlab.drivers.common.barriers import Barriers


class FakeServer:
    def __init__(self) -> None:
        self.answers: list[asyncio.Future[None]] = []

    def send_barrier(self) -> "asyncio.Future[None]":
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


def test_what_is_taken_is_known_by_the_answers() -> None:
    async def test() -> None:
        server = FakeServer()
        barriers = Barriers(server.send_barrier)
        await barriers.wait_accepted()
        assert server.answers == []
        barriers.add(3)
        barriers.add(2)
        await barriers.wait_accepted(5)
        barriers.add(4)
        waiting = asyncio.ensure_future(barriers.wait_accepted(4))
        await asyncio.sleep(0)
        assert len(server.answers) == 2
        assert not waiting.done()
        server.answers[0].set_result(None)
        await waiting
        rest = asyncio.ensure_future(barriers.wait_accepted())
        await asyncio.sleep(0)
        assert (len(server.answers), rest.done()) == (2, False)
        server.answers[1].set_result(None)
        await rest

    uvloop.run(test())


def test_a_question_that_cannot_be_answered_any_more_is_told_again_and_again() -> None:
    async def test() -> None:
        server = FakeServer()
        barriers = Barriers(server.send_barrier)
        barriers.add(1)
        barriers.send()
        server.answers[0].set_exception(DriverError("gone"))
        for _ in range(2):
            with pytest.raises(DriverError, match="gone"):
                await barriers.wait_accepted()

    uvloop.run(test())


def test_no_more_questions_than_wanted_are_open() -> None:
    async def test() -> None:
        server = FakeServer()
        barriers = Barriers(server.send_barrier)
        for _ in range(3):
            barriers.add(1)
            barriers.send()
        waiting = asyncio.ensure_future(barriers.wait_answered(2))
        await asyncio.sleep(0)
        assert not waiting.done()
        server.answers[0].set_result(None)
        await waiting
        await barriers.wait_accepted(2)

    uvloop.run(test())
