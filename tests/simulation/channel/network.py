"""Connections between simulated processes: bytes take their time, and a cut takes any part of what is under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from mqlab.wire.native.bodies import Buffer

from .timeline import Timeline

if TYPE_CHECKING:
    from .loop import Loop

Factory = Callable[[], asyncio.BaseProtocol]


class Parcel:
    """Bytes under way; None: the end of the connection."""

    def __init__(self, data: bytes | None) -> None:
        self.data = data


class Route:
    """The way to an address. `seconds`: what bytes take, one of these, more or less."""

    def __init__(self, address: str, *seconds: float) -> None:
        self.address = address
        self.seconds = seconds
        # Nobody gets through: connecting is refused, or it takes until the route is open again.
        self.closed = self.silent = False
        self.connections: list[tuple[End, End]] = []
        # Called whenever something is sent, either way.
        self.on_parcel: Callable[[], None] = lambda: None


class End(asyncio.Transport):
    """One side of a connection."""

    other: End

    def __init__(self, loop: Loop, route: Route) -> None:
        super().__init__()
        self.loop = loop
        self._route = route
        self._timeline = loop.timeline
        self._protocol: asyncio.BaseProtocol | None = None
        # What is under way to this side, and when the last of it comes.
        self._coming: deque[Parcel] = deque()
        self._last = 0.0
        # What this side writes gets nowhere; and it is closed, or knows that it is cut off.
        self._severed = self._closed = False
        # What has come and was not read: its protocol does not want to read for now.
        self._unread: deque[bytes | None] = deque()
        self._reading = True

    # The transport of a protocol

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def write(self, data: Buffer) -> None:
        if not self._closed:
            self._send(bytes(data))

    def close(self) -> None:
        """What was written arrives first."""
        if not self._closed:
            self._send(None)
            self.end(None)

    def abort(self) -> None:
        """Of what was written, some may arrive."""
        if not self._closed:
            self.other.lose_some()
            self.close()

    def is_closing(self) -> bool:
        return self._closed

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.loop.call_soon(self._read)

    def get_extra_info(self, name: str, default: object = None) -> object:  # noqa: ARG002 - there is no socket to tell of
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nobody here writes so much."""

    # The way there

    def _send(self, data: bytes | None) -> None:
        if not self._severed:
            timeline, other, parcel = self._timeline, self.other, Parcel(data)
            other._last = max(other._last, timeline.now + timeline.some(*self._route.seconds))
            other._coming.append(parcel)
            timeline.at(other._last, partial(other._arrive, parcel))
            self._route.on_parcel()

    def _arrive(self, parcel: Parcel) -> None:
        if self._coming and self._coming[0] is parcel:
            self._coming.popleft()
            self.loop.call_soon(self._receive, parcel.data)

    def _receive(self, data: bytes | None) -> None:
        self._unread.append(data)
        self._read()

    def _read(self) -> None:
        while self._unread and self._reading and not self._closed:
            self._take(self._unread.popleft())

    def _take(self, data: bytes | None) -> None:
        protocol = self._protocol
        if data is None:
            self.end(None)
        elif isinstance(protocol, asyncio.BufferedProtocol):
            rest = memoryview(data)
            while rest and not self._closed:
                room = memoryview(protocol.get_buffer(len(rest)))
                size = min(len(room), len(rest))
                room[:size] = rest[:size]
                protocol.buffer_updated(size)
                rest = rest[size:]
                if rest and not self._reading:
                    self._unread.appendleft(bytes(rest))
                    break
        elif isinstance(protocol, asyncio.Protocol):
            protocol.data_received(data)

    def end(self, error: Exception | None) -> None:
        """It is closed, or learns that it is cut off."""
        if not self._closed:
            self._closed = True
            if self._protocol is not None:
                self.loop.call_soon(self._protocol.connection_lost, error)

    def lose_some(self) -> None:
        """Of what is under way to this side a part arrives, and no more of it: it may end within a frame."""
        if self._coming:
            chance = self._timeline.chance
            keep = chance.randrange(len(self._coming))
            parcel = self._coming[keep]
            if parcel.data is not None:
                parcel.data = parcel.data[: chance.randint(0, len(parcel.data))]
                keep += 1
            while len(self._coming) > keep:
                self._coming.pop()

    def sever(self) -> None:
        self._severed = True
        self.other.lose_some()


class Server:
    """A process listens."""

    def __init__(self, network: Network, loop: Loop, factory: Factory, address: str) -> None:
        self.loop = loop
        self.factory = factory
        self._network = network
        self._address = address

    def close(self) -> None:
        if self._network.servers.get(self._address) is self:
            del self._network.servers[self._address]


class Network:
    def __init__(self, timeline: Timeline) -> None:
        self.routes: dict[str, Route] = {}
        self.servers: dict[str, Server] = {}
        self._timeline = timeline

    def listen(self, loop: Loop, factory: Factory, address: str) -> Server:
        server = self.servers[address] = Server(self, loop, factory, address)
        return server

    async def connect(self, loop: Loop, factory: Factory, path: str) -> tuple[End, asyncio.BaseProtocol]:
        """Raises OSError if nobody is there."""
        route = self.routes[path]
        await asyncio.sleep(self._timeline.some(*route.seconds))
        while route.silent:
            await asyncio.sleep(1.0)
        server = self.servers.get(route.address)
        if server is None or route.closed:
            raise ConnectionRefusedError(f"nobody listens at {path}")
        here, there = End(loop, route), End(server.loop, route)
        here.other, there.other = there, here
        route.connections = [one for one in route.connections if not (one[0].is_closing() and one[1].is_closing())]
        route.connections.append((here, there))
        server.loop.call_soon(lambda: there.begin(server.factory()))
        protocol = factory()
        here.begin(protocol)
        return here, protocol

    def cut(self, connection: tuple[End, End], *learn: float) -> None:
        """What is under way is lost, and each side learns of it in its time: one of these seconds, more or less."""
        for end in connection:
            end.sever()
        for end in connection:
            error = ConnectionResetError("cut")
            self._timeline.after(self._timeline.some(*learn), partial(end.end, error))

    def leave(self, loop: Loop, *learn: float) -> None:
        """A process is gone."""
        for address in [address for address, server in self.servers.items() if server.loop is loop]:
            del self.servers[address]
        for route in self.routes.values():
            for connection in [one for one in route.connections if any(end.loop is loop for end in one)]:
                route.connections.remove(connection)
                self.cut(connection, *learn)
