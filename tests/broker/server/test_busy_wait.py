"""`busy_wait`: the loop sleeps between two messages, or does not."""

import asyncio

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker.server import busy_wait
from mqlab.broker.server.busy_wait import BusyWait
from mqlab.broker.server.startup import running
from mqlab.broker.settings import SettingError, Settings


@in_loop
async def test_it_stays_awake_until_nothing_has_come_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0
    monkeypatch.setattr(busy_wait, "monotonic_ns", lambda: clock)
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        return clock

    watched = BusyWait(asyncio.get_running_loop(), 200)
    watched.restart()
    monkeypatch.setattr(busy_wait, "monotonic_ns", look)

    async def turns(count: int) -> int:
        before = looks
        for _ in range(count):
            await asyncio.sleep(0)
        return looks - before

    assert await turns(10) == 10
    clock = 199_999
    watched.restart()
    looks -= 1
    clock = 399_998
    assert await turns(10) == 10, "it has come again meanwhile"
    clock = 399_999
    assert await turns(10) == 1
    assert await turns(10) == 0, "it sleeps"
    watched.restart()
    assert await turns(10) == 10


@pytest.mark.parametrize("busy_wait", [0, 500])
@in_loop
async def test_messages_come_either_way(busy_wait: int) -> None:
    async with running(local(busy_wait=busy_wait)) as (_, (address,)):
        session = await (await client(address)).session()
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for number in range(20):
            await producer.send(b"%d" % number)
            assert (await consumer.receive()).body == b"%d" % number


@pytest.mark.parametrize("value", [-1, 1_000_001, "long"])
def test_what_makes_no_sense_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match="busy_wait"):
        Settings(busy_wait=value)  # type: ignore[arg-type] # the test shows that it is refused
