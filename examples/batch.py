"""Batches with the asyncio API: thousands of messages in one frame.

mqlab broker                                     # in one terminal
python examples/batch.py tcp:127.0.0.1:7766      # in another
"""

import asyncio
import sys
import time

import numpy as np

from mqlab.client import aio
from mqlab.wire.native.bodies import encode, encode_equal

ROWS, SIZE, BATCHES = 4096, 12, 200


async def send(connection: aio.Connection) -> None:
    producer = await (await connection.session()).producer("topic:example.ticks")
    # Bodies of one size are contiguous in one array: mqlab does not look at each.
    rows = np.zeros((ROWS, SIZE), dtype=np.uint8)
    numbers = np.arange(ROWS, dtype="<u8")
    for batch in range(BATCHES):
        rows[:, :8] = (numbers + batch * ROWS).view(np.uint8).reshape(ROWS, 8)
        await producer.send_batch(encode_equal(rows.reshape(-1), ROWS))
    # Bodies of different sizes: a list of bytes.
    await producer.send_batch(encode([b"that", b"is", b"all"]))
    await producer.close()


async def main(address: str) -> None:
    async with await aio.connect(address) as sending, await aio.connect(address) as receiving:
        # A subscription gets the messages that are sent while it exists, so subscribe first.
        consumer = await (await receiving.session()).consumer("topic:example.ticks", prefetch=50_000)
        begin, received, total = time.perf_counter(), 0, 0
        sender = asyncio.create_task(send(sending))
        while True:
            bodies = (await consumer.receive_batch(timeout=10)).bodies()
            table = bodies.table()
            if table is None:
                # Bodies of different sizes: the last batch.
                print("and then", b" ".join(bodies.tolist()).decode())
                break
            received += len(bodies)
            total += int(np.ascontiguousarray(table[:, :8]).view("<u8").sum())
        await sender
        assert total == sum(range(ROWS * BATCHES)), "nothing lost, nothing twice"
        print(f"received {received} messages, {received / (time.perf_counter() - begin):,.0f} a second")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
