import asyncio

import pytest
import uvloop

from mqlab.drivers import DriverError
from mqlab.drivers.common.barriers import Marks


class Questions:
    def __init__(self) -> None:
        self.asked: list[asyncio.Future[None]] = []

    def ask(self) -> "asyncio.Future[None]":
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]


def test_what_is_taken_is_known_by_the_answers() -> None:
    async def test() -> None:
        questions = Questions()
        marks = Marks(questions.ask)
        await marks.taken()
        assert questions.asked == []
        marks.sent(3)
        marks.sent(2)
        await marks.taken(5)
        marks.sent(4)
        waiting = asyncio.ensure_future(marks.taken(4))
        await asyncio.sleep(0)
        assert len(questions.asked) == 2
        assert not waiting.done()
        questions.asked[0].set_result(None)
        await waiting
        rest = asyncio.ensure_future(marks.taken())
        await asyncio.sleep(0)
        assert (len(questions.asked), rest.done()) == (2, False)
        questions.asked[1].set_result(None)
        await rest

    uvloop.run(test())


def test_a_question_that_cannot_be_answered_any_more_is_told_again_and_again() -> None:
    async def test() -> None:
        questions = Questions()
        marks = Marks(questions.ask)
        marks.sent(1)
        marks.mark()
        questions.asked[0].set_exception(DriverError("gone"))
        for _ in range(2):
            with pytest.raises(DriverError, match="gone"):
                await marks.taken()

    uvloop.run(test())


def test_no_more_questions_than_wanted_are_open() -> None:
    async def test() -> None:
        questions = Questions()
        marks = Marks(questions.ask)
        for _ in range(3):
            marks.sent(1)
            marks.mark()
        waiting = asyncio.ensure_future(marks.few(2))
        await asyncio.sleep(0)
        assert not waiting.done()
        questions.asked[0].set_result(None)
        await waiting
        await marks.taken(2)

    uvloop.run(test())
