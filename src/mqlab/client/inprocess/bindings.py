"""Bindings: clients in the broker's own process, without a socket.

A broker opens a door under its name; `connect("bindings:NAME")` comes in there, from whatever thread. In the broker's
own event loop frames are handled before their sender waits for anything, as if the broker were a library.
"""

import asyncio
import threading
from collections.abc import Callable

from mqlab.client.connection import Wire
from mqlab.client.inprocess.direct_transport import Host, NearWire
from mqlab.client.inprocess.frame_transport import BoundWire
from mqlab.client.inprocess.pipe import End, Side, ThreadEnd, Turns

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
            wire: Wire = NearWire(broker if isinstance(broker, Host) else None)
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
