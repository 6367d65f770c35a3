"""The line of a run with faults: a process between the agents and the system that passes bytes on, late or not at all.

    proxy.py HOST PORT [LISTEN]

It listens on the loopback, or on the address LISTEN, and prints `listening on PORT`. Every line of its stdin is a
`LineState` as JSON, which holds from its answer `ok` on. It ends when its stdin closes.
"""

import asyncio
import json
import os
import random
import socket
import sys
from collections import deque
from dataclasses import asdict, dataclass
from typing import Final

import uvloop

# A lost segment is sent again after this time, and twice that if it is lost again: the least of Linux's TCP.
RETRANSMISSION_SECONDS: Final = 0.2
SEGMENT_BYTES: Final = 1448
# A direction reads no further while so many bytes wait in it: about what the buffers of a socket hold.
_MAX_WAITING_BYTES: Final = 1 << 20
_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class LineState:
    """`passes`: bytes pass. `accepts`: connections live; if not, all there are and all new ones are reset."""

    passes: bool = True
    accepts: bool = True
    delay_s: float = 0.0
    loss: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class LineProxy:
    """Passes bytes between its clients and the address of a system."""

    def __init__(self, host: str, port: int) -> None:
        self.state = LineState()
        self._target = host, port
        self._changed = asyncio.Event()
        self._connections: set[_ProxiedConnection] = set()
        self._server: asyncio.Server | None = None
        # The same losses in every run.
        self.random = random.Random(0)

    async def start(self, host: str) -> int:
        """Returns the port on which it listens."""
        self._server = await asyncio.start_server(self._serve, host, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def change(self, state: LineState) -> None:
        self.state = state
        if not state.accepts:
            for connection in self._connections:
                connection.abort()
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_passes(self) -> None:
        while not self.state.passes:
            await self._changed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.state.accepts:
            writer.transport.abort()
            return
        # In a cut line the request for a connection does not arrive.
        await self.wait_passes()
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        for side in (writer, far_writer):
            side.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _ProxiedConnection(writer, far_writer)
        self._connections.add(connection)
        try:
            await asyncio.gather(_Direction(self, reader, far_writer).run(), _Direction(self, far_reader, writer).run())
        except OSError:
            # The one side notices that the other is gone.
            connection.abort()
        finally:
            self._connections.discard(connection)
            for side in (writer, far_writer):
                side.close()


class _ProxiedConnection:
    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers

    def abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


class _Direction:
    """The bytes from one side of a connection to the other."""

    def __init__(self, line: LineProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._line = line
        self._reader = reader
        self._writer = writer
        # The bytes on their way, each with the moment of their arrival; empty ones are the last: the sender has closed.
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Raises OSError if one of the sides is lost."""
        reading = asyncio.ensure_future(self._read())
        try:
            await self._write()
            await reading
        finally:
            reading.cancel()

    async def _read(self) -> None:
        loop, arrival, is_open = asyncio.get_running_loop(), 0.0, True
        while is_open:
            await self._line.wait_passes()
            try:
                data = await self._reader.read(_READ_BYTES)
            except OSError:
                self._writer.transport.abort()
                data = b""
            is_open = bool(data)
            # Bytes do not overtake each other.
            arrival = max(arrival, loop.time() + self._line.state.delay_s + self._lost_seconds(len(data)))
            self._waiting.append((arrival, data))
            self._waiting_bytes += len(data)
            self._moved.set()
            while self._waiting_bytes > _MAX_WAITING_BYTES:
                self._moved.clear()
                await self._moved.wait()

    def _lost_seconds(self, size_bytes: int) -> float:
        """How much later the bytes arrive because segments are lost: what follows a lost one waits for it."""
        loss, chance, seconds = self._line.state.loss, self._line.random.random, 0.0
        if loss:
            for _ in range(-(-size_bytes // SEGMENT_BYTES)):
                timeout = RETRANSMISSION_SECONDS
                while chance() < loss:
                    seconds, timeout = seconds + timeout, 2 * timeout
        return seconds

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._waiting:
                self._moved.clear()
                await self._moved.wait()
            arrival, data = self._waiting[0]
            if (left := arrival - loop.time()) > 0:
                await asyncio.sleep(left)
            await self._line.wait_passes()
            if self._writer.is_closing():
                raise ConnectionResetError
            if not data:
                self._writer.write_eof()
                return
            self._writer.write(data)
            await self._writer.drain()
            self._waiting.popleft()
            self._waiting_bytes -= len(data)
            self._moved.set()


class _StateProtocol(asyncio.StreamReaderProtocol):
    def connection_lost(self, _: Exception | None) -> None:
        os._exit(0)  # the lab is gone


async def _main(host: str, port: int, listen: str = "127.0.0.1") -> None:
    proxy = LineProxy(host, port)
    print(f"listening on {await proxy.start(listen)}", flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: _StateProtocol(reader), sys.stdin)
    while line := await reader.readline():
        proxy.change(LineState(**json.loads(line)))
        print("ok", flush=True)
    os._exit(0)  # without a word about the connections that are left


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
