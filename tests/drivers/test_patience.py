import asyncio

import pytest
import uvloop

from mqlab.drivers import DriverError
from mqlab.drivers.confirming import Confirming
from mqlab.drivers.patience import owed


def test_an_answer_is_waited_for_until_it_comes() -> None:
    async def play() -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, "here")
        return await owed(answer)

    assert uvloop.run(play()) == "here"


def test_one_that_never_comes_is_an_error_in_the_end() -> None:
    async def play() -> None:
        await owed(asyncio.get_running_loop().create_future(), 0.01)

    with pytest.raises(DriverError, match=r"the system did not answer within 0\.01 s"):
        uvloop.run(play())


def test_confirmations_that_never_come_hold_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.drivers.confirming.HELD_SECONDS", 0.01)

    async def play() -> None:
        confirming = Confirming()
        await confirming.sending(3, 10)
        await confirming.all()

    with pytest.raises(DriverError, match="did not answer"):
        uvloop.run(play())
