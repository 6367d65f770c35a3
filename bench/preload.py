"""Request/reply by correlation id on one shared reply queue, with messages on it that nobody retrieves.

Six clients, 1,024 bytes. Each key is the rate with so many unretrieved messages over the rate with none: with the
index the depth must not matter, with `retrieval: scan` it does. All brokers are up together; only one is used at a
time.
"""

import asyncio
import tempfile
from pathlib import Path

import pyarrow as pa
import uvloop

from _asking import LEAD, REPLIES, REQUESTS, ask_for, respond
from _common import arguments, finish, interleaved, medians, ratio, say
from mqlab.client import aio
from mqlab.systems import Running, system
from mqlab.wire.native.columns import encode_columns

CLIENTS = 6
SIZE = 1024
ROOM = "queue_limit=4000000000,memory_limit=8000000000"
DEPTHS = {"indexed_0": 0, "indexed_1000": 1_000, "indexed_1000000": 1_000_000, "scan_0": 0, "scan_1000": 1_000}
_BATCH = 1_000


class Bench:
    """A broker with its preloaded reply queue, its clients, and a responder."""

    def __init__(self, running: Running, clients: list[aio.Requester], responder: "asyncio.Task[None]") -> None:
        self._running = running
        self._clients = clients
        self._responder = responder

    @classmethod
    async def start(cls, name: str, folder: Path, depth: int) -> "Bench":
        retrieval = name.partition("_")[0]
        running = await system(f"embedded:retrieval={retrieval},{ROOM}").start(folder / name)
        await preload(running.address, depth)
        clients = []
        for _ in range(CLIENTS):
            session = await (await aio.connect(running.address)).session()
            clients.append(await session.requester(REQUESTS, reply_to=REPLIES))
        responder = asyncio.ensure_future(respond(await (await aio.connect(running.address)).session()))
        return cls(running, clients, responder)

    async def rate(self, seconds: float) -> float:
        """Round trips a second of all clients together."""
        await ask_for(self._clients, LEAD, SIZE)
        return await ask_for(self._clients, seconds, SIZE) / seconds

    async def stop(self) -> None:
        self._responder.cancel()
        await self._running.stop()


async def preload(address: str, messages: int) -> None:
    """By a client that leaves; the depth is verified."""
    connection = await aio.connect(address)
    producer = await (await connection.session()).producer(REPLIES)
    body = b"p" * SIZE
    for first in range(0, messages, _BATCH):
        bodies = pa.array([body] * _BATCH, pa.binary())
        ids = pa.array([f"preload-{number}" for number in range(first, first + _BATCH)])
        await producer.send_batch(encode_columns(bodies, {"correlation_id": ids}))
    await producer.close()
    depth = (await connection.status())["messages"]
    if depth != messages:
        raise SystemExit(f"{depth} messages on the reply queue where {messages} were preloaded")
    await connection.close()


def main() -> None:
    chosen = arguments(__doc__ or "")
    # Short turns: what disturbs a machine for a second or more then disturbs both sides of a ratio.
    seconds, rounds = 0.25, 24 if chosen.quick else 160
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder:
        benches: dict[str, Bench] = {}
        try:
            for name, messages in DEPTHS.items():
                depth = min(messages, 2 * _BATCH) if chosen.smoke else messages
                say(f"{name}: {depth:,} messages preloaded")
                benches[name] = loop.run_until_complete(Bench.start(name, Path(folder), depth))
                loop.run_until_complete(benches[name].rate(0.3))
            sides = {name: lambda one=one: loop.run_until_complete(one.rate(seconds)) for name, one in benches.items()}
            found = interleaved(sides, chosen.rounds or rounds)
        finally:
            for one in benches.values():
                loop.run_until_complete(one.stop())
            loop.close()
    finish(
        indexed_1000=ratio(found["indexed_1000"], found["indexed_0"]),
        indexed_1000000=ratio(found["indexed_1000000"], found["indexed_0"]),
        scan_1000=ratio(found["scan_1000"], found["scan_0"]),
        round_trips_per_second=medians(found),
    )


if __name__ == "__main__":
    main()
