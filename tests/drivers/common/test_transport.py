import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import uvloop

from drivers.fake_server import Play, fake_server
from mqlab.drivers import DriverError
from mqlab.drivers.common.transport import SocketTransport
from mqlab.wire.native.payload import Bytes


class FrameParser:
    """Frames of `LENGTH:` and so many bytes."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.parse_calls = 0
        self.lost: list[str] = []
        self.transport = SocketTransport("test", self.parse, self.lost.append)

    def parse(self, data: Bytes) -> tuple[int, int]:
        self.parse_calls += 1
        text, at = data.tobytes(), 0
        while (colon := text.find(b":", at)) >= 0:
            size = int(text[at:colon])
            if colon + 1 + size > len(text):
                return at, colon + 1 + size - at
            self.frames.append(text[colon + 1 : colon + 1 + size])
            at = colon + 1 + size
        return at, 0


def run(play: Play, test: Callable[[FrameParser, str], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(240), fake_server(play) as address:
            parser = FrameParser()
            try:
                await test(parser, address)
            finally:
                await parser.transport.close()

    uvloop.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_what_is_written_while_a_read_is_parsed_leaves_together() -> None:
    class Echo(FrameParser):
        def parse(self, data: Bytes) -> tuple[int, int]:
            before = len(self.frames)
            done = super().parse(data)
            for frame in self.frames[before:]:
                self.transport.write(frame)
            return done

    class Writes:
        """In place of the socket."""

        def __init__(self) -> None:
            self.writes: list[bytes] = []

        def write(self, data: bytes) -> None:
            self.writes.append(data)

        def set_write_buffer_limits(self, high: int) -> None: ...

    async def play() -> None:
        echo, socket = Echo(), Writes()
        echo.transport.connection_made(cast(asyncio.Transport, socket))
        for data in (b"1:a2:bc3:d", b"ef"):
            echo.transport.get_buffer(-1)[: len(data)] = data
            echo.transport.buffer_updated(len(data))
        echo.transport.write(b"after")
        assert socket.writes == [b"abc", b"def", b"after"]

    uvloop.run(play())


@pytest.mark.parametrize("size", [1, 1000, 300_000, 3_000_000])
def test_frames_come_whole_however_they_are_torn(size: int) -> None:
    frames = [bytes([n]) * (size + n) for n in range(20)]
    data = b"".join(b"%d:%s" % (len(frame), frame) for frame in frames)

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        step = max(7, len(data) // 50)
        for begin in range(0, len(data), step):
            writer.write(data[begin : begin + step])
            await writer.drain()
            await asyncio.sleep(0)

    async def test(parser: FrameParser, address: str) -> None:
        await parser.transport.open(address)
        await until(lambda: len(parser.frames) == 20)
        assert parser.frames == frames
        if size == 3_000_000:
            # A large frame is not looked at again and again before it is whole.
            assert parser.parse_calls < 100

    run(play, test)


def test_what_is_not_read_holds_the_writer_back() -> None:
    async def play(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        while await reader.read(1 << 20):
            pass

    async def test(parser: FrameParser, address: str) -> None:
        await parser.transport.open(address)
        before = 0
        while not parser.transport.is_write_paused:
            parser.transport.write(bytes(1 << 20))
            before += 1
        assert before < 100
        await parser.transport.wait_writable()
        assert not parser.transport.is_write_paused

    run(play, test)


def test_a_line_that_is_held_reads_nothing() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while word := await reader.readexactly(1):
            writer.write(b"1:" + word)

    async def test(parser: FrameParser, address: str) -> None:
        await parser.transport.open(address)
        parser.transport.pause_reading("a")
        parser.transport.pause_reading("b")
        parser.transport.write(b"xy")
        parser.transport.resume_reading("a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(until(lambda: bool(parser.frames)), 0.05)
        parser.transport.resume_reading("b")
        await until(lambda: parser.frames == [b"x", b"y"])

    run(play, test)


def test_the_end_of_a_connection_is_told_once() -> None:
    async def play(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    async def test(parser: FrameParser, address: str) -> None:
        await parser.transport.open(address)
        parser.transport.write(b"x")
        await until(lambda: bool(parser.lost))
        with pytest.raises(DriverError, match="test server closed the connection"):
            parser.transport.write(b"x")
        await parser.transport.close()
        assert len(parser.lost) == 1

    run(play, test)


def test_what_is_malformed_ends_the_connection() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"no number: x")
        await reader.read()

    async def test(parser: FrameParser, address: str) -> None:
        await parser.transport.open(address)
        await until(lambda: bool(parser.lost))
        assert "invalid literal" in parser.lost[0]

    run(play, test)


@pytest.mark.parametrize("address", ["tcp:127.0.0.1:1", "tls:127.0.0.1:1", "bindings:x", "nonsense"])
def test_an_address_where_nobody_is(address: str) -> None:
    async def main() -> None:
        with pytest.raises(DriverError, match=address):
            await FrameParser().transport.open(address)

    uvloop.run(main())
