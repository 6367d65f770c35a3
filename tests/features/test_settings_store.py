"""Knobs of the studies, one switched at a time: what goes to disk, when, and how much of it stays there."""

import asyncio
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local
from mqlab.broker.server.startup import running
from mqlab.broker.settings import KIB, MIB
from mqlab.client import aio
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import encode

from .message_helpers import receive


async def _show(connection: aio.Connection, name: str = "queue:q") -> JsonObject:
    return await connection.ask("show", name=name)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
@in_loop
async def test_save_retrieve_extent_spill_queue_to_disk(tmp_path: Path, persistent: bool, single: bool) -> None:
    """Beyond the extent messages wait on disk, and come back in order."""
    bodies = [b"%-1000d" % n for n in range(4000)]
    steps = 1 if single else 100
    in_memory = []
    for extent in (0, 256 * KIB):
        settings = local(data=tmp_path / str(extent), save_extent=extent, queue_limit=64 * MIB)
        async with running(settings) as (_, (address,)):
            connection = await client(address)
            session = await connection.session()
            producer = await session.producer("queue:q")
            for n in range(0, 4000, steps):
                await producer.send_batch(encode(bodies[n : n + steps]), persistent=persistent)
            await producer.close()
            about = await _show(connection)
            assert about["messages"] == 4000
            in_memory.append(about["in_memory"])
            assert (about["counters"]["saved"] > 0) == (extent > 0)
            assert await receive(await session.consumer("queue:q", prefetch=10), 4000) == bodies
    assert in_memory[0] >= 4_000_000
    # What is gathered for the next page is still in memory.
    assert in_memory[1] < 2 * 256 * KIB + 4 * 100 * 1000


@pytest.mark.parametrize("length", [128 * KIB, 64 * MIB])
@in_loop
async def test_syncpoint_recovery_log_length(tmp_path: Path, length: int) -> None:
    """One old message keeps every file since; a checkpoint carries it forward, so that the log stays short."""
    settings = local(data=tmp_path, segment_size=64 * KIB, log_length=length)
    async with running(settings) as (_, (address,)):
        connection = await client(address)
        session = await connection.session()
        await (await session.producer("queue:old")).send(b"old", persistent=True)
        producer, consumer = await session.producer("queue:q"), await session.consumer("queue:q")
        for _ in range(60):
            await producer.send_batch(encode([b"x" * 1000] * 20), persistent=True, confirm=True)
            await consumer.receive_batch(timeout=240)
        status = await connection.status()
        files = [*tmp_path.glob("journal-*")]
        if length == 128 * KIB:
            assert status["checkpoints"] >= 3
            assert status["checkpoint_bytes"] > 0
            assert status["checkpoint_seconds"] > 0
            assert status["journal_length"] < 3 * length
            assert len(files) <= 6
        else:
            assert (status["checkpoints"], status["checkpoint_bytes"]) == (0, 0)
            assert status["journal_length"] > 60 * 20 * 1000
            assert len(files) >= 12
    async with running(settings) as (_, (address,)):
        session = await (await client(address)).session()
        assert await receive(await session.consumer("queue:old"), 1) == [b"old"]


@pytest.mark.parametrize("sync", ["on", "off"])
@in_loop
async def test_sync_to_disk_on_each_persistent_send(tmp_path: Path, sync: str) -> None:
    async with running(local(data=tmp_path, sync=sync)) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("queue:q")
        for n in range(1, 11):
            await producer.send(b"x", persistent=True)
            assert (await connection.status())["syncs"] == (n if sync == "on" else 0)
    async with running(local(data=tmp_path, sync=sync)) as (_, (address,)):
        # The operating system has it, which is enough as long as it lives.
        assert (await (await client(address)).status())["messages"] == 10


@in_loop
async def test_group_commit_delay_several_writes_per_sync(tmp_path: Path) -> None:
    """Ten who come one after the other each wait for a sync of their own, or all for one that waits for them."""
    syncs = []
    for delay in (0, 500_000):
        async with running(local(data=tmp_path / str(delay), group_delay=delay)) as (_, (address,)):
            connection = await client(address)
            session = await connection.session()
            producers = [await session.producer(f"queue:{n}") for n in range(10)]
            begin = asyncio.get_running_loop().time()
            sends = []
            for producer in producers:
                sends.append(asyncio.ensure_future(producer.send(b"x", persistent=True)))
                await asyncio.wait(sends[-1:], timeout=0.01)
            await asyncio.gather(*sends)
            took = asyncio.get_running_loop().time() - begin
            syncs.append((await connection.status())["syncs"])
    assert took >= 0.5
    assert syncs[1] <= 2 < syncs[0]


@pytest.mark.parametrize("preallocate", [True, False])
@pytest.mark.parametrize(("size", "least", "most"), [(64 * KIB, 8, 20), (MIB, 1, 2)])
@in_loop
async def test_journal_file_count(tmp_path: Path, size: int, least: int, most: int, preallocate: bool) -> None:
    """Large files are few; a preallocated one has its space from the start."""
    settings = local(data=tmp_path, segment_size=size, preallocate=preallocate)
    async with running(settings) as (_, (address,)):
        connection = await client(address)
        producer = await (await connection.session()).producer("queue:q")
        for _ in range(40):
            await producer.send_batch(encode([b"x" * 1000] * 20), persistent=True, confirm=True)
        files = sorted(tmp_path.glob("journal-*"))
        assert least <= len(files) <= most
        newest = files[-1].stat().st_blocks * 512
        written = (await connection.status())["journal_bytes"]
        if preallocate:
            assert newest >= size
        else:
            # Beside what is written, an eighth of a file is for what makes room on a full disk.
            assert sum(file.stat().st_blocks * 512 for file in files) < written + size // 4 + 64 * KIB
