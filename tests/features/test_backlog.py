"""Ten times as much as may be in memory lies on a queue: memory stays bounded, nothing is lost, order is kept.

MQLAB_TORTURE=1 does it with more.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from mqlab.client import aio

from .broker_process import BrokerProcess
from .memory_watch import MemoryWatch

MIB = 1024 * 1024
TORTURE = os.environ.get("MQLAB_TORTURE") == "1"
TIMES = 10
ROWS = 256
LIMIT = (64 if TORTURE else 12) * MIB
# What any limit must allow for, buffers and libraries, counts for much beside a small one: so a broker with a small
# limit has had some messages before it is weighed for the first time.
WARM_UP = 4 * 1024
PATIENCE_SECONDS = 1800


async def fill(address: str, shape: str, count: int, *, persistent: bool) -> None:
    async with await aio.connect(address) as connection:
        producer = await (await connection.session()).producer("queue:q")
        step = ROWS if shape == "batches" else 1
        for first in range(0, count, step):
            bodies = [b"%-1024d" % n for n in range(first, first + step)]
            await producer.send_batch(producer.encoder.batch(bodies), persistent=persistent)
            if first % ROWS == 0:
                await asyncio.sleep(0)
        await producer.close()
        assert (await connection.status())["messages"] == count


async def drain(address: str, count: int) -> None:
    """Every message once and in order."""
    async with await aio.connect(address) as connection:
        consumer = await (await connection.session()).consumer("queue:q")
        expected = 0
        while expected < count:
            bodies = (await consumer.receive_batch(timeout=60)).bodies().tolist()
            assert [*map(int, bodies)] == [*range(expected, expected + len(bodies))]
            expected += len(bodies)
        await consumer.close()
        status = await connection.status()
        assert (status["messages"], status["memory"]) == (0, 0)


@pytest.mark.parametrize("persistent", [False, True], ids=["express", "persistent"])
@pytest.mark.parametrize("shape", ["batches", "single"])
def test_ten_times_the_memory_limit(
    shape: str, persistent: bool, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    options = {
        "data": tmp_path / "data", "memory-limit": LIMIT, "save-extent": LIMIT // 8, "queue-limit": 100 * LIMIT,
        # Recovery needs a file of the journal in memory.
        "segment-size": LIMIT // 8, "log-length": 20 * LIMIT,
    }  # fmt: skip
    count = TIMES * LIMIT // 1024

    async def run() -> None:
        arguments = (f"--{name}={value}" for name, value in options.items())
        async with BrokerProcess(tmp_path, *arguments) as broker:
            if not TORTURE:
                await fill(broker.address, shape, WARM_UP, persistent=persistent)
                await drain(broker.address, WARM_UP)
            with MemoryWatch(broker) as weighed:
                await fill(broker.address, shape, count, persistent=persistent)
                if persistent:
                    await broker.stop()
                    await broker.start()
                await drain(broker.address, count)
        record_property("messages", count)
        record_property(f"peak_percent_{shape}", round(100 * weighed.peak / LIMIT))
        assert weighed.peak <= LIMIT * 1.2, f"{weighed.peak / MIB:.1f} MiB"
        print(f"peak {weighed.peak / MIB:.1f} MiB of {LIMIT / MIB:.0f}")

    uvloop.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
