"""Where the broker waits for the disk: in a thread, or in its loop if that is over sooner and nobody else is there."""

import asyncio
import threading
from pathlib import Path

import pytest

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.group_commit import SyncSchedule
from mqlab.client.errors import MessagingError

from .raw_client import client, in_loop, local


async def where(broker: Broker, *, quick: bool) -> str:
    """The thread in which a sync is done."""
    done = asyncio.get_running_loop().create_future()
    found: list[str] = []
    broker.run_sync(lambda: found.append(threading.current_thread().name), done.set_result, quick=quick)
    assert await done is None
    return found[0]


@in_loop
async def test_a_quick_sync_is_done_in_the_loop_if_little_else_happens(tmp_path: Path) -> None:
    here = threading.current_thread().name
    async with running(local(data=tmp_path)) as (broker, _):
        assert await where(broker, quick=False) == "mqlab-sync"
        assert await where(broker, quick=True) == here
        for looks, name in ((4, here), (5, "mqlab-sync"), (4, here)):
            for _ in range(looks):
                broker.update_clock()
            assert await where(broker, quick=True) == name


@in_loop
async def test_a_sync_that_fails_in_the_loop_stops_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SyncSchedule, "is_quick", True)
    tried: list[str] = []

    def fail(_files: Files, _file: int) -> None:
        tried.append(threading.current_thread().name)
        raise OSError("Input/output error")

    async with running(local(data=tmp_path)) as (broker, (address,)):
        producer = await (await (await client(address)).session()).producer("queue:q")
        await producer.send(b"safe", persistent=True)
        with monkeypatch.context() as broken:
            broken.setattr(Files, "sync", fail)
            with pytest.raises(MessagingError):
                await producer.send(b"not safe", persistent=True)
            assert "Input/output" in str(await broker.failure)
        assert tried == [threading.current_thread().name]


@in_loop
async def test_what_was_consumed_goes_with_the_next_sync_or_by_itself(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (broker, (address,)):
        session = await (await client(address)).session("client")
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for body in (b"1", b"2"):
            await producer.send(body, persistent=True)
            await consumer.receive(timeout=240)
        before = broker.status()
        session.acknowledge()
        while broker.status()["messages"]:
            await asyncio.sleep(0)
        async with asyncio.timeout(240):
            while broker.status()["journal_bytes"] == before["journal_bytes"]:
                await asyncio.sleep(0.001)
        # Nobody waited for it.
        assert broker.status()["syncs"] == before["syncs"]
