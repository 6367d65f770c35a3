"""Request/reply over bindings (the broker in the application's process) against client mode (over TCP).

One requester and one responder, 2,048 bytes, by correlation id on a shared reply queue. `bindings_over_client` is the
rate over bindings, with asyncio in one event loop, over that of the same program with a broker in a process of its
own; requester and responder share a process there too, since with a process each client mode is slower still.
`threads_over_client` is the same for the blocking API, with a thread for each of the two.
"""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop

from _common import arguments, finish, interleaved, medians, ratio
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client import blocking as plain
from mqlab.client.blocking_links import Consumer
from mqlab.client.errors import ClosedError
from mqlab.systems import Running, system

SIZE = 2048
REQUESTS, REPLIES = "queue:requests", "queue:replies"
# Before each turn: the broker was idle while the others had theirs.
_LEAD = 0.05
_BODY = b"r" * SIZE

Rate = Callable[[float], float]


class AsyncSide:
    """Requester and responder in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str) -> None:
        self._loop = loop
        self._requester = loop.run_until_complete(self._open(address))

    async def _open(self, address: str) -> aio.Requester:
        self._connections = [await aio.connect(address) for _ in range(2)]
        self._responder = asyncio.ensure_future(self._respond(await self._connections[0].session()))
        session = await self._connections[1].session()
        return await session.requester(REQUESTS, reply_to=REPLIES)

    async def _respond(self, session: aio.Session) -> None:
        async for request in await session.consumer(REQUESTS):
            await session.reply(request, request.body)

    async def _ask_for(self, seconds: float) -> int:
        end, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            await self._requester.request(_BODY, 60)
            count += 1
        return count

    def rate(self, seconds: float) -> float:
        """Round trips a second."""
        self._loop.run_until_complete(self._ask_for(_LEAD))
        return self._loop.run_until_complete(self._ask_for(seconds)) / seconds

    def close(self) -> None:
        self._responder.cancel()
        for connection in self._connections:
            self._loop.run_until_complete(connection.close())


class PlainSide:
    """Requester and responder in a thread each."""

    def __init__(self, address: str) -> None:
        self._connections = [plain.connect(address) for _ in range(2)]
        session = self._connections[0].session()
        self._requester = self._connections[1].session().requester(REQUESTS, reply_to=REPLIES)
        self._responder = threading.Thread(target=self._respond, args=(session, session.consumer(REQUESTS)))
        self._responder.start()

    def _respond(self, session: plain.Session, consumer: Consumer) -> None:
        try:
            for request in consumer:
                session.reply(request, request.body)
        except ClosedError:
            pass

    def _ask_for(self, seconds: float) -> int:
        end, count = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            self._requester.request(_BODY, 60)
            count += 1
        return count

    def rate(self, seconds: float) -> float:
        self._ask_for(_LEAD)
        return self._ask_for(seconds) / seconds

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        self._responder.join()


def sides(stack: ExitStack, loop: asyncio.AbstractEventLoop, folder: Path) -> dict[str, Rate]:
    """All four, up together; only one is used at a time."""

    def started(name: str) -> Running:
        running = loop.run_until_complete(system("embedded").start(folder / name))
        stack.callback(lambda: loop.run_until_complete(running.stop()))
        return running

    def asking(address: str) -> Rate:
        side = AsyncSide(loop, address)
        stack.callback(side.close)
        return side.rate

    def blocking(address: str) -> Rate:
        side = PlainSide(address)
        stack.callback(side.close)
        return side.rate

    inside = loop.run_until_complete(LocalBroker.start(Settings(name="inside", listen=())))
    stack.callback(lambda: loop.run_until_complete(inside.close()))
    threaded = stack.enter_context(LocalBroker.in_thread(Settings(name="threaded", listen=())))
    return {
        "bindings": asking(f"bindings:{inside.name}"),
        "client": asking(started("client").address),
        "bindings_threads": blocking(f"bindings:{threaded.name}"),
        "client_threads": blocking(started("client_threads").address),
    }


def main() -> None:
    chosen = arguments(__doc__ or "")
    seconds, rounds = 0.25, 24 if chosen.quick else 120
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    with tempfile.TemporaryDirectory(prefix="mqlab-bench-") as folder, ExitStack() as stack:
        rates = sides(stack, loop, Path(folder))
        turns = {name: lambda rate=rate: rate(seconds) for name, rate in rates.items()}
        found = interleaved(turns, chosen.rounds or rounds)
    loop.close()
    finish(
        bindings_over_client=ratio(found["bindings"], found["client"]),
        threads_over_client=ratio(found["bindings_threads"], found["client_threads"]),
        round_trips_per_second=medians(found),
    )


if __name__ == "__main__":
    main()
