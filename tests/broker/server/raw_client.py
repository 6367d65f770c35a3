"""A broker in the event loop of the test, and a client that sends any frames."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec, Protocol, cast

import uvloop

from mqlab.broker.settings import Settings
from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.client.message import Message
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Frame, Kind


class Closable(Protocol):
    def close(self) -> Awaitable[object]: ...


# What the running test has opened; closed when it ends, however it ends.
opened: list[Closable] = []

Arguments = ParamSpec("Arguments")


def in_loop(test: Callable[Arguments, Coroutine[object, None, None]]) -> Callable[Arguments, None]:
    """A test that runs in uvloop, as broker and client do. A hang is a failure after 90 seconds."""

    async def and_close(*arguments: Arguments.args, **fixtures: Arguments.kwargs) -> None:
        try:
            await asyncio.wait_for(test(*arguments, **fixtures), 240)
        finally:
            while opened:
                with suppress(MessagingError, OSError):
                    await opened.pop().close()

    @functools.wraps(test)
    def run(*arguments: Arguments.args, **fixtures: Arguments.kwargs) -> None:
        uvloop.run(and_close(*arguments, **fixtures))

    return run


async def client(address: Address) -> aio.Connection:
    """A connection of the client library that is closed with the test."""
    connection = await aio.connect(str(address))
    opened.append(connection)
    return connection


def local(**chosen: object) -> Settings:
    """Settings of a broker on a free port."""
    return Settings.flat(listen=("tcp:127.0.0.1:0",), **chosen)


async def unwritten_at_rest(transport: asyncio.Transport) -> int:
    """Bytes that wait in the broker for a client that does not read, when no more are added."""
    unwritten, turns = 0, 0
    while not unwritten or turns < 100:
        await asyncio.sleep(0)
        size = transport.get_write_buffer_size()
        unwritten, turns = size, turns + 1 if size == unwritten else 0
    return unwritten


def traced(folder: Path, on: bool = True) -> dict[str, object]:
    """Settings with which everything is observed that can be; or none."""
    if not on:
        return {}
    return {"trace": "high", "api_trace": folder / "api-trace", "api_trace_internal": True, "monitoring": "high"}


def seen(message: Message) -> tuple[bytes, bool]:
    """Its body, and whether it is marked as one that may have come before."""
    return message.body, message.redelivered


class Raw:
    """Frames out and in, with no rules of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        # typeshed says less of it: a stream's transport writes and reads.
        self.transport = cast(asyncio.Transport, writer.transport)
        self._receiver = native.FrameDecoder(64 * 1024 * 1024)
        self._frames: list[Frame] = []
        opened.append(self)

    @classmethod
    async def connect(cls, address: Address, *, greet: bool = True) -> "Raw":
        if address.path:
            raw = cls(*await asyncio.open_unix_connection(address.path))
        else:
            raw = cls(*await asyncio.open_connection(address.host, address.port))
        if greet:
            raw.write(native.frame(Kind.HELLO, {"version": native.VERSION}))
            assert (await raw.read()).kind == Kind.HELLO
        return raw

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def read(self) -> Frame:
        """The next frame. Raises EOFError if the broker has ended the connection."""
        while not self._frames:
            try:
                data = await self._reader.read(65536)
            except ConnectionError:  # it ended while something was on its way to it
                data = b""
            if not data:
                raise EOFError
            self._frames += self._receiver.feed(data)
        return self._frames.pop(0)

    async def read_until(self, kind: Kind) -> Frame:
        while (frame := await self.read()).kind != kind:
            pass
        return frame

    async def is_ended(self) -> str:
        """The broker says why, and then nothing more. Returns what it says."""
        error = await self.read_until(Kind.ERROR)
        assert (error.session, error.link) == (0, 0)
        try:
            while True:
                await self.read()
        except EOFError:
            return str(error.json()["message"])

    async def open_session(self, number: int = 1, *, transacted: bool = False) -> None:
        self.write(native.frame(Kind.OPEN_SESSION, {"transacted": transacted}, session=number))
        await self.read_until(Kind.OPENED)

    async def open_producer(self, destination: str, link: int = 1, session: int = 1) -> None:
        self.write(native.frame(Kind.OPEN_PRODUCER, {"destination": destination}, session=session, link=link))
        await self.read_until(Kind.CREDIT)

    async def open_consumer(self, destination: str, link: int = 2, session: int = 1, room: int = 100) -> None:
        about = {"destination": destination}
        self.write(native.frame(Kind.OPEN_CONSUMER, about, session=session, link=link, amount=room))
        await self.read_until(Kind.OPENED)

    def send(self, *bodies: bytes, first: int = 1, link: int = 1, flags: int = 0) -> None:
        payload = encode(bodies)
        flags |= payload.form
        size = len(payload.data)
        head = native.header(Kind.SEND, flags=flags, session=1, link=link, first=first, amount=len(bodies), length=size)
        self.write(head + bytes(payload.data))

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()
