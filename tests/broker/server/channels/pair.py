"""Two brokers in the test's own event loop, A with a channel to B, and a gate between them."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Unpack

from broker.option_types import ChannelValues
from mqlab.broker.channel_settings import ChannelSettings
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.consumer import Acknowledge
from mqlab.json_values import JsonObject
from mqlab.wire.address import Address

PATIENCE = 240


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


class Gate:
    """Leads from one Unix socket to another, as long as it is open; what goes through can be held up either way."""

    def __init__(self, here: Path, there: Path) -> None:
        self._here, self._there = here, there
        self._writers: set[asyncio.StreamWriter] = set()
        self._passes = {"there": asyncio.Event(), "back": asyncio.Event()}
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self.let("there", "back")
        self._server = await asyncio.start_unix_server(self._serve, self._here)

    async def close(self) -> None:
        """Nobody comes in, and who is in is cut off."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._here.unlink()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def let(self, *ways: str) -> None:
        for way in ways:
            self._passes[way].set()

    def hold(self, way: str) -> None:
        """What comes from now on waits, and is lost when the gate closes."""
        self._passes[way].clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._there)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(far_writer)
        for way in (("there", reader, far_writer), ("back", far_reader, writer)):
            task = asyncio.ensure_future(self._pump(*way))
            self._tasks.add(task)

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._passes[way].wait()
                writer.write(data)
                await writer.drain()
        writer.close()


class Pair:
    """`a` and `b` are settings of the two beside the usual ones; `channel` those of the channel."""

    def __init__(
        self,
        folder: Path,
        a: Mapping[str, object] | None = None,
        b: Mapping[str, object] | None = None,
        **channel: Unpack[ChannelValues],
    ) -> None:
        self.folder = folder
        gate, there = folder / "gate", folder / "B"
        self.gate = Gate(gate, there)
        channel.setdefault("retry", 1)
        to_b = ChannelSettings("B", f"unix:{gate}", **channel)
        self._settings = {
            "A": self._of("A", {"channels": (to_b,), "monitoring": "high", **(a or {})}), "B": self._of("B", b or {}),
        }  # fmt: skip
        self._running: dict[str, AsyncExitStack] = {}
        self.brokers: dict[str, Broker] = {}
        self.addresses: dict[str, list[Address]] = {}
        self._clients: list[aio.Connection] = []

    def _of(self, name: str, more: Mapping[str, object]) -> Settings:
        usual = {"name": name, "data": self.folder / f"data {name}", "listen": (f"unix:{self.folder / name}",)}
        return Settings.flat(**{**usual, **more})

    async def start(self, name: str) -> None:
        self._running[name] = AsyncExitStack()
        started = await self._running[name].enter_async_context(running(self._settings[name]))
        self.brokers[name], self.addresses[name] = started

    async def stop(self, name: str) -> None:
        await self._running.pop(name).aclose()

    async def client(self, name: str, *, user: str = "", password: str = "", client_id: str = "") -> aio.Connection:
        connection = await aio.connect(f"unix:{self.folder / name}", user=user, password=password, client_id=client_id)
        self._clients.append(connection)
        return connection

    async def session(self, name: str, mode: Acknowledge = "auto") -> aio.Session:
        return await (await self.client(name)).session(mode)

    @property
    def status(self) -> JsonObject:
        """Of the channel to B."""
        (found,) = self.brokers["A"].channels.status()
        return found

    def waiting(self) -> int:
        """Messages on the transmission queue, in hand or not."""
        queue = self.brokers["A"].core.destinations.queues.get("transmit.B")
        return 0 if queue is None else queue.messages

    def depth(self, name: str) -> int:
        """Of a queue of B."""
        queue = self.brokers["B"].core.destinations.queues.get(name)
        return 0 if queue is None else queue.messages

    async def becomes(self, state: str) -> JsonObject:
        await until(lambda: self.status["state"] == state)
        return self.status

    async def __aenter__(self) -> "Pair":
        await self.gate.open()
        await self.start("B")
        await self.start("A")
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._clients:
            await connection.drop()
        for name in [*self._running]:
            await self.stop(name)
        await self.gate.close()


async def bodies(session: aio.Session, name: str, count: int) -> list[bytes]:
    """So many messages, and no other."""
    consumer = await session.consumer(name)
    found = [(await consumer.receive(PATIENCE)).body for _ in range(count)]
    await consumer.close()
    return found
