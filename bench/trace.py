# ruff: noqa: A005 (the name that was promised; nothing here needs the module of the standard library)
"""What watching costs: a request/reply load with everything traced, over the same load with nothing watched.

Several requesters and responders over TCP, 2,048 bytes, not persistent, replies by correlation id on one shared
queue. All brokers are up together; only one is used at a time. Beside the rates it says what a round trip cost each
broker in CPU time.
"""

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path

import uvloop

from _asking import LEAD, REPLIES, REQUESTS, ask_for, respond
from _common import arguments, finish, interleaved, medians, ratio, say
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.client import aio
from mqlab.systems import Running, system

REQUESTERS, RESPONDERS = 6, 2
SIZE = 2048
SIDES = {
    "base": "monitoring=off,trace=off",
    "monitoring_high": "monitoring=high,trace=off",
    "trace_low": "monitoring=off,trace=low",
    "trace_medium": "monitoring=off,trace=medium",
    "trace_high": "monitoring=off,trace=high",
    "api_trace": "monitoring=off,trace=off,api_trace={file}",
}


class Bench:
    """A broker with its requesters and responders."""

    def __init__(self, running: Running, requesters: list[aio.Requester], tasks: "list[asyncio.Task[None]]") -> None:
        self._running = running
        self._requesters = requesters
        self._tasks = tasks
        self.cpu: list[float] = []

    @classmethod
    async def start(cls, name: str, folder: Path) -> "Bench":
        settings = SIDES[name].format(file=folder / "api-trace.txt")
        running = await system(f"embedded:{settings}").start(folder / name)
        requesters, tasks = [], []
        for number in range(REQUESTERS):
            session = await (await aio.connect(running.address, application=f"Requester{number}")).session()
            requesters.append(await session.requester(REQUESTS, reply_to=REPLIES))
        for number in range(RESPONDERS):
            session = await (await aio.connect(running.address, application=f"Responder{number}")).session()
            tasks.append(asyncio.ensure_future(respond(session)))
        return cls(running, requesters, tasks)

    async def rate(self, seconds: float) -> float:
        """Round trips a second of all requesters together."""
        await ask_for(self._requesters, LEAD, SIZE)
        before = await self._running.sample()
        count = await ask_for(self._requesters, seconds, SIZE)
        after = await self._running.sample()
        self.cpu.append(1e6 * (after["cpu_seconds"] - before["cpu_seconds"]) / count)
        return count / seconds

    async def read_trace(self) -> int:
        """Take what was recorded, as somebody who reads a trace does. How many bytes it was."""
        connection = await aio.connect(self._running.address)
        consumer, size = await (await connection.session()).consumer(TRACE_QUEUE), 0
        with suppress(TimeoutError):
            while True:
                size += len((await consumer.receive(0.2)).body)
        await connection.close()
        return size

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await self._running.stop()


def main() -> None:
    chosen = arguments(__doc__ or "")
    # Short turns: what disturbs a machine for a second or more then disturbs both sides of a ratio.
    seconds, rounds = 0.25, 20 if chosen.quick else 120
    names = ["base", "trace_high", "api_trace"] if chosen.smoke else [*SIDES]
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder:
        benches: dict[str, Bench] = {}
        try:
            for name in names:
                benches[name] = loop.run_until_complete(Bench.start(name, Path(folder)))
                loop.run_until_complete(benches[name].rate(0.3))
            sides = {name: lambda one=one: loop.run_until_complete(one.rate(seconds)) for name, one in benches.items()}
            found = interleaved(sides, chosen.rounds or rounds)
            read = {name: loop.run_until_complete(one.read_trace()) for name, one in benches.items()}
        finally:
            for one in benches.values():
                loop.run_until_complete(one.stop())
            loop.close()
    say(f"bytes of trace that were read: {read}")
    finish(
        **{name: ratio(found[name], found["base"]) for name in names if name != "base"},
        round_trips_per_second=medians(found),
        broker_microseconds_a_round_trip=medians({name: one.cpu for name, one in benches.items()}),
    )


if __name__ == "__main__":
    main()
