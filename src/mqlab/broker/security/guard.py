"""Counts connections, in all and by address, and failed logins by user and address.

It only keeps the books: the caller reports events with their time, and acts on the answers.
"""

import ipaddress
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import lru_cache

from mqlab.broker import limits

# An address, and a user name (None: all users).
_Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """The limits of a guard; limits.py gives their reasons."""

    connections: int = field(default_factory=lambda: limits.CONNECTIONS)
    an_address: int = field(default_factory=lambda: limits.CONNECTIONS_AN_ADDRESS)
    failures: int = field(default_factory=lambda: limits.LOGIN_FAILURES)
    failure_seconds: float = field(default_factory=lambda: limits.LOGIN_FAILURE_SECONDS)
    delay_least: float = field(default_factory=lambda: limits.LOGIN_DELAY_LEAST)
    delay: float = field(default_factory=lambda: limits.LOGIN_DELAY)
    failing_addresses: int = field(default_factory=lambda: limits.FAILING_ADDRESSES)


class Guard:
    """A peer is an IP address, `uid N` for a Unix socket, or "" inside the broker's process.

    The limit by address holds for IP addresses only.
    """

    def __init__(self, bounds: GuardLimits | None = None) -> None:
        self._bounds = bounds or GuardLimits()
        self._connections: Counter[str] = Counter()
        self._all = 0
        # Times of the last failures by key, the key with the latest failure last.
        self._failures: dict[_Key, deque[float]] = {}

    def admit(self, peer: str) -> str | None:
        """Count a connection until `release`. If there are too many, return the reason and do not count it."""
        if self._all >= self._bounds.connections:
            return f"this broker accepts at most {self._bounds.connections} connections"
        address = _counted_address(peer)
        if _is_ip_address(address) and self._connections[address] >= self._bounds.an_address:
            return f"this broker accepts at most {self._bounds.an_address} connections from one address"
        self._all += 1
        self._connections[address] += 1
        return None

    def release(self, peer: str) -> None:
        address = _counted_address(peer)
        assert self._connections[address] > 0, "a connection was released without having been admitted"
        self._all -= 1
        self._connections[address] -= 1
        if not self._connections[address]:
            del self._connections[address]

    def failures(self, peer: str, name: str, now: float) -> int:
        """Recent failed logins of this user from this address."""
        return len(self._recent(_pair(peer, name), now))

    def is_suspect(self, peer: str, now: float) -> bool:
        """Whether so many logins from this address have failed that its passwords are checked slowly."""
        return len(self._recent((_counted_address(peer), None), now)) >= self._bounds.failures

    def failed_login(self, peer: str, name: str, now: float) -> float:
        """Count a failure. Return the delay of the answer in seconds; each failure of user and address doubles it."""
        self._add((_counted_address(peer), None), now)
        doublings = min(self._add(_pair(peer, name), now) - 1, 30)
        return min(self._bounds.delay_least * (1 << doublings), self._bounds.delay)

    def _add(self, key: _Key, now: float) -> int:
        recent = self._recent(key, now)
        recent.append(now)
        self._failures.pop(key, None)
        self._failures[key] = recent
        if len(self._failures) > self._bounds.failing_addresses:
            del self._failures[next(iter(self._failures))]
        return len(recent)

    def _recent(self, key: _Key, now: float) -> deque[float]:
        times = self._failures.get(key)
        if times is None:
            return deque(maxlen=self._bounds.failures)
        while times and times[0] <= now - self._bounds.failure_seconds:
            times.popleft()
        if not times:
            del self._failures[key]
        return times


def _pair(peer: str, name: str) -> _Key:
    # No user has a longer name, and the name takes memory.
    return _counted_address(peer), name[: limits.USER_NAME]


def _is_ip_address(address: str) -> bool:
    return bool(address) and not address.startswith("uid ")


@lru_cache(maxsize=1024)
def _counted_address(peer: str) -> str:
    """The address that counts: for IPv6 the /64 network, since one host can use all its addresses."""
    try:
        ip_address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(ip_address, ipaddress.IPv4Address):
        return str(ip_address)
    if ip_address.ipv4_mapped is not None:
        return str(ip_address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(ip_address), 64), strict=False))
