"""A link between two brokers that can be cut at any moment, also in the middle of a frame."""

import asyncio
from contextlib import suppress
from random import Random


class Proxy:
    """Listens on a free port of this machine and leads to a Unix socket."""

    def __init__(self, path: str, chance: Random) -> None:
        self._path = path
        self._chance = chance
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Bytes that still pass one way or the other, as long as a cut is under way.
        self._left: dict[str, int] = {}
        self.port = 0
        self.cuts = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """At once, or after some more bytes in one direction: a request or its answer is lost, or half of either."""
        self.cuts += 1
        way = self._chance.choice(("now", "there", "back"))
        if way == "now":
            self._abort()
        else:
            self._left[way] = self._chance.choice((1, 10, 23, 24, 25, 100, 1000, 10_000))

    def _abort(self) -> None:
        self._left.clear()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(far_writer)
        ways = (("there", reader, far_writer), ("back", far_reader, writer))
        pumps = [asyncio.ensure_future(self._pump(*way)) for way in ways]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, far_writer):
            one.transport.abort()
            self._writers.discard(one)
        await asyncio.gather(*pumps, return_exceptions=True)
        self._tasks.difference_update(pumps)

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                left = self._left.get(way)
                if left is not None and left <= len(data):
                    writer.write(data[:left])
                    # What was let through is to arrive.
                    await writer.drain()
                    await asyncio.sleep(0)
                    self._abort()
                    return
                if left is not None:
                    self._left[way] = left - len(data)
                writer.write(data)
                await writer.drain()
