"""The line to a system that is not on this machine: how much of it was used.

The loopback is memory: it has no speed that could be reached, and is not looked at.
"""

import socket
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import psutil

from mqlab.wire.address import Address, BadAddressError

_INTERFACES: Final = Path("/sys/class/net")
_MEGABIT: Final = 1e6
# As the kernel calls them, and as the samples do.
_WAYS: Final = {"rx_bytes": "network-in", "tx_bytes": "network-out"}


class NetworkLink:
    """`folder` is what the kernel shows of an interface; `speed` in bits a second."""

    def __init__(self, folder: Path, speed: float) -> None:
        self._folder = folder
        self._speed = speed

    @classmethod
    def to(cls, address: str, speed: float | None, interfaces: Path = _INTERFACES) -> "NetworkLink | None":
        """None on this machine, and where nobody knows how fast it is; `speed` is what the system's owner says."""
        try:
            where = Address.parse(address)
        except BadAddressError:
            return None
        name = "" if where.is_local else _interface(where.host, where.port)
        speed = speed or (_shown(interfaces / name) if name else None)
        return cls(interfaces / name, speed) if name and speed else None

    def sample(self) -> dict[str, dict[str, Any]]:
        """Columns of a row for each way, by its source: bytes, and the seconds that the line needs for them."""
        rows = {}
        for file, source in _WAYS.items():
            moved = int((self._folder / "statistics" / file).read_text())
            column = "bytes_read" if file == "rx_bytes" else "bytes_written"
            rows[source] = {"cpu_seconds": 0.0, "rss": 0, "sync_seconds": moved * 8 / self._speed, column: moved}
        return rows


@lru_cache(maxsize=16)
def _interface(host: str, port: int) -> str:
    """That of the route there; "" if it is one of this machine's own addresses, or there is no route."""
    try:
        family, kind, *_, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as asking:
            # Of a datagram socket this only chooses the route: nothing is sent.
            asking.connect(there)
            here = asking.getsockname()[0]
    except OSError:
        return ""
    if here == there[0]:
        return ""
    names = (name for name, own in psutil.net_if_addrs().items() if any(one.address == here for one in own))
    return next(names, "")


def _shown(folder: Path) -> float | None:
    """The speed that the kernel knows: of many virtual interfaces it knows none."""
    try:
        megabits = int((folder / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * _MEGABIT if megabits > 0 else None
