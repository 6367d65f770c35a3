"""How many connections there are, in all and by address, and how often an address gave a wrong password.

Bookkeeping only: the caller says what happened and when, and does what the answer says.
"""

import ipaddress
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import lru_cache

from mqlab.broker import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits that a guard keeps; their reasons stand in limits.py."""

    connections: int = field(default_factory=lambda: limits.CONNECTIONS)
    an_address: int = field(default_factory=lambda: limits.CONNECTIONS_AN_ADDRESS)
    failures: int = field(default_factory=lambda: limits.LOGIN_FAILURES)
    failure_seconds: float = field(default_factory=lambda: limits.LOGIN_FAILURE_SECONDS)
    delay_least: float = field(default_factory=lambda: limits.LOGIN_DELAY_LEAST)
    delay: float = field(default_factory=lambda: limits.LOGIN_DELAY)
    failing_addresses: int = field(default_factory=lambda: limits.FAILING_ADDRESSES)


class Guard:
    """A peer is the text of its IP address, `uid N` for a Unix socket, or "" inside the broker's process.

    Of the limits of connections only the one for all holds for the last two.
    """

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._connections: Counter[str] = Counter()
        self._all = 0
        # Times of failures, no more than the limit needs; addresses in the order of their last failure.
        self._failures: dict[str, deque[float]] = {}

    def arrived(self, peer: str) -> str | None:
        """None: it is counted, until `left`. Else why it must go; then it is not counted."""
        if self._all >= self._bounds.connections:
            return f"this broker serves {self._bounds.connections} connections and no more"
        home = _home(peer)
        if _is_elsewhere(home) and self._connections[home] >= self._bounds.an_address:
            return f"this broker serves {self._bounds.an_address} connections from one address and no more"
        self._all += 1
        self._connections[home] += 1
        return None

    def left(self, peer: str) -> None:
        home = _home(peer)
        assert self._connections[home] > 0, "it left without having arrived"
        self._all -= 1
        self._connections[home] -= 1
        if not self._connections[home]:
            del self._connections[home]

    def refuses_login(self, peer: str, now: float) -> str | None:
        """Why no password of this address is looked at for now.

        Ask when the turn of a login has come, not when it begins to wait: those before it may have failed.
        """
        recent = self._recent(_home(peer), now)
        if len(recent) < self._bounds.failures:
            return None
        return "too many failed logins from this address; try again later"

    def failed_login(self, peer: str, now: float) -> float:
        """Seconds after which to tell the peer: each failure doubles them."""
        home = _home(peer)
        recent = self._recent(home, now)
        recent.append(now)
        self._failures.pop(home, None)
        self._failures[home] = recent
        if len(self._failures) > self._bounds.failing_addresses:
            del self._failures[next(iter(self._failures))]
        doublings = min(len(recent) - 1, 30)
        return min(self._bounds.delay_least * (1 << doublings), self._bounds.delay)

    def _recent(self, home: str, now: float) -> deque[float]:
        times = self._failures.get(home)
        if times is None:
            return deque(maxlen=self._bounds.failures)
        while times and times[0] <= now - self._bounds.failure_seconds:
            times.popleft()
        if not times:
            del self._failures[home]
        return times


def _is_elsewhere(home: str) -> bool:
    return bool(home) and not home.startswith("uid ")


@lru_cache(maxsize=1024)
def _home(peer: str) -> str:
    """What counts as one address: of IPv6 the network, since a single host can use all 2**64 addresses of one."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False))
