"""Bindings: clients in the broker's own process, without a socket.

A broker opens a door under its name; `connect("bindings:NAME")` comes in there, from whatever thread. In the broker's
own event loop frames are handled before their sender waits for anything, as if the broker were a library.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from mqlab.client.connection import Wire
from mqlab.client.pipe import End, Side, ThreadEnd, Turns, frames_of
from mqlab.wire.bodies import Buffer
from mqlab.wire.native import Frame

# How often in one turn of the loop frames are handled before somebody waits. Without a bound, one who then never has to
# wait would never let anybody else have a turn.
_AT_ONCE: Final = 64

_LARGE: Final = 16 * 1024

_doors: "dict[str, Door]" = {}
_lock = threading.Lock()


class Door:
    """Made in the broker's event loop. `welcome` makes the broker's side of a new connection."""

    def __init__(self, name: str, welcome: Callable[[], Side]) -> None:
        self.name = name
        self.loop = asyncio.get_running_loop()
        self._welcome = welcome
        self._turns = Turns()

    def open(self) -> None:
        """Raises ValueError if another broker of this process has that name."""
        with _lock:
            if _doors.setdefault(self.name, self) is not self:
                raise ValueError(f"there is a broker called {self.name!r} in this process already")

    def close(self) -> None:
        """Nobody comes in any more. Those who are in stay."""
        with _lock:
            if _doors.get(self.name) is self:
                del _doors[self.name]

    def enter(self) -> Wire:
        """For a client in the running event loop, be it the broker's or another."""
        loop, broker = asyncio.get_running_loop(), self._welcome()
        if loop is self.loop:
            wire: Wire = NearWire()
            near = End(wire, loop, Turns())
            near.other = End(broker, loop, self._turns)
            near.other.other = near
            wire.connection_made(near)
            broker.connection_made(near.other)
        else:
            wire = BoundWire()
            far = ThreadEnd(wire, loop)
            far.other = ThreadEnd(broker, self.loop)
            far.other.other = far
            wire.connection_made(far)
            self.loop.call_soon_threadsafe(broker.connection_made, far.other)
        return wire


def door(name: str) -> Door:
    """Raises ConnectionRefusedError if no broker of this process has that name."""
    with _lock:
        found = _doors.get(name)
    if found is None:
        raise ConnectionRefusedError(f"no broker in this process is called {name!r}")
    return found


class BoundWire(Wire):
    """The wire to a broker in the same process: frames leave together at the end of this turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: list[Frame] = []
        # What others want to send before anything else is.
        self._first: list[Callable[[], None]] = []
        self._due = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, End)
        self._end = transport

    def soon(self, action: Callable[[], None]) -> None:
        self._first.append(action)
        self._flush_soon()

    def send(self, frame: Frame) -> None:
        if self._transport is None:
            self._must_be_open()
        if self._first:
            self._do_first()
        self._ready.append(frame if type(frame.payload) is bytes else _unchangeable(frame))
        if len(frame.payload) >= _LARGE:
            # What is handled together is delivered together: it should not be too much.
            self._hand_over_early()
        elif not self._due:
            self._flush_soon()

    def write(self, *data: Buffer) -> None:
        for frame in frames_of(data):
            self.send(frame)

    def _flush_soon(self) -> None:
        if not self._due:
            self._due = True
            self.loop.call_soon(self._flush)

    def _do_first(self) -> None:
        actions, self._first = self._first, []
        for action in actions:
            action()

    def _flush(self) -> None:
        self._due = False
        self._hand_over()

    def _hand_over_early(self) -> None:
        self._hand_over()

    def _hand_over(self) -> None:
        if self._first:
            self._do_first()
        ready, self._ready = self._ready, []
        if ready:
            self._end.send(ready)


class NearWire(BoundWire):
    """The wire to a broker in the same event loop: what is sent is handled before anybody waits for its effect."""

    def __init__(self) -> None:
        super().__init__()
        self._at_once = _AT_ONCE

    def about_to_wait(self) -> None:
        """If it has done so too often in this turn of the loop: at its end."""
        if self._at_once:
            self._at_once -= 1
            self._hand_over()
        elif not self._due:
            self._flush_soon()

    _hand_over_early = about_to_wait

    def _flush(self) -> None:
        self._at_once, self._due = _AT_ONCE, False
        if self._ready or self._first:
            self._hand_over()


def _unchangeable(frame: Frame) -> Frame:
    """The broker keeps the payload: if anybody could still write to it, a copy."""
    payload = frame.payload
    if isinstance(payload, memoryview) and payload.readonly:
        return frame
    return frame._replace(payload=bytes(payload))
