import asyncio

import pytest
import uvloop

from mqlab.drivers import DriverError
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.timeouts import with_timeout


def test_an_answer_is_waited_for_until_it_comes() -> None:
    async def play() -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, "here")
        return await with_timeout(answer)

    assert uvloop.run(play()) == "here"


def test_one_that_never_comes_is_an_error_in_the_end() -> None:
    async def play() -> None:
        await with_timeout(asyncio.get_running_loop().create_future(), 0.01)

    with pytest.raises(DriverError, match=r"the system did not answer within 0\.01 s"):
        uvloop.run(play())


def test_what_was_waited_for_is_named() -> None:
    async def play() -> None:
        await with_timeout(asyncio.sleep(10), 0.01, "the moon did not rise")

    with pytest.raises(DriverError, match=r"the moon did not rise within 0\.01 s"):
        uvloop.run(play())


def test_who_is_cancelled_while_waiting_is_cancelled() -> None:
    async def play() -> None:
        waiting = asyncio.ensure_future(with_timeout(asyncio.get_running_loop().create_future(), 0.01))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    uvloop.run(play())


def test_who_was_cancelled_before_still_gets_the_error() -> None:
    """While it puts its things away."""

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await with_timeout(asyncio.get_running_loop().create_future(), 0.01)

    async def play() -> None:
        working = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(DriverError, match="did not answer"):
            await working

    uvloop.run(play())


def test_confirmations_that_never_come_hold_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.common.confirmations.BLOCKED_TIMEOUT_S", 0.01)

    async def play() -> None:
        confirmations = ConfirmationCounter()
        await confirmations.reserve(3, 10)
        await confirmations.wait_confirmed()

    with pytest.raises(DriverError, match="did not answer"):
        uvloop.run(play())
