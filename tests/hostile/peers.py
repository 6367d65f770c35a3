"""The connection of a hostile client: where it goes, and what it writes and reads."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from . import payloads

# Of queues that a guest may use; few, so that they are full soon and take little memory.
QUEUES = [f"queue:guest.{number}" for number in range(3)]
BODY = b"x" * 4096


class Victim(NamedTuple):
    """Where to attack, and as whom."""

    port: int
    tls_port: int
    metrics_port: int
    login: payloads.Login
    tls: ssl.SSLContext


class Peer:
    """Bytes out and in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._stomp_over_websocket = False

    async def write(self, *pieces: bytes) -> None:
        """Waits no longer for a broker that does not read than it takes to be a nuisance."""
        for piece in pieces:
            if self.writer.is_closing():
                raise ConnectionResetError
            self.writer.write(payloads.websocket_frame(2, piece) if self._stomp_over_websocket else piece)
        async with asyncio.timeout(0.5):
            await self.writer.drain()

    async def read(self, seconds: float = 0.5) -> bytes:
        async with asyncio.timeout(seconds):
            return await self.reader.read(1 << 16)

    async def read_all(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while await self.reader.read(1 << 16):
                    pass

    async def speak_stomp(self, chance: random.Random, login: payloads.Login) -> None:
        if chance.random() < 0.3:
            await self.write(payloads.websocket_request(login))
            await self.read()
            self._stomp_over_websocket = True
        await self.write(payloads.stomp_connect(login))
        await self.read(5)


Attack = Callable[[Victim, random.Random, Peer], Awaitable[None]]


async def connect(victim: Victim, chance: random.Random, port: int | None = None, *, tls: bool | None = None) -> Peer:
    """From one of some addresses of this machine: others are not judged by what these do."""
    tls = port is None and chance.random() < 0.15 if tls is None else tls
    port = port or (victim.tls_port if tls else victim.port)
    from_address = (f"127.0.1.{chance.randrange(1, 9)}", 0)
    context = victim.tls if tls else None
    async with asyncio.timeout(5):
        return Peer(*await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=from_address))
