"""Samples of the network interface to a system on another machine.

The loopback interface has no bandwidth limit and is not sampled.
"""

import socket
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import psutil

from mqlab.wire.address import Address, BadAddressError

_INTERFACES: Final = Path("/sys/class/net")
_MEGABIT: Final = 1e6
# The kernel's counters, and the sources of their samples.
_SOURCES: Final = {"rx_bytes": "network-in", "tx_bytes": "network-out"}


class NetworkLink:
    """`folder` is the interface in /sys/class/net."""

    def __init__(self, folder: Path, bits_per_s: float) -> None:
        self._folder = folder
        self._bits_per_s = bits_per_s

    @classmethod
    def to(cls, address: str, bits_per_s: float | None, interfaces: Path = _INTERFACES) -> "NetworkLink | None":
        """The link to an address. None if it is on this machine, or if its bandwidth is not known.

        Without `bits_per_s` it is the bandwidth that the kernel reports.
        """
        try:
            parsed = Address.parse(address)
        except BadAddressError:
            return None
        name = "" if parsed.is_local else _interface(parsed.host, parsed.port)
        bits_per_s = bits_per_s or (_reported_bits_per_s(interfaces / name) if name else None)
        return cls(interfaces / name, bits_per_s) if name and bits_per_s else None

    def sample(self) -> dict[str, dict[str, Any]]:
        """Columns of a sample for each direction, by source: bytes, and the seconds that the link needs for them."""
        rows = {}
        for file, source in _SOURCES.items():
            count = int((self._folder / "statistics" / file).read_text())
            column = "bytes_read" if file == "rx_bytes" else "bytes_written"
            rows[source] = {"cpu_seconds": 0.0, "rss": 0, "sync_seconds": count * 8 / self._bits_per_s, column: count}
        return rows


@lru_cache(maxsize=16)
def _interface(host: str, port: int) -> str:
    """The interface of the route to the host; "" if the host is this machine, or if there is no route."""
    try:
        family, kind, *_, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as datagrams:
            # Connecting a datagram socket only selects the route: it sends nothing.
            datagrams.connect(remote)
            local = datagrams.getsockname()[0]
    except OSError:
        return ""
    if local == remote[0]:
        return ""
    names = (name for name, bound in psutil.net_if_addrs().items() if any(entry.address == local for entry in bound))
    return next(names, "")


def _reported_bits_per_s(folder: Path) -> float | None:
    """The bandwidth that the kernel reports; for many virtual interfaces it reports none."""
    try:
        megabits = int((folder / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * _MEGABIT if megabits > 0 else None
