"""How many connections there are, in all and by address, and how often a user's login failed from an address.

Bookkeeping only: the caller says what happened and when, and does what the answer says.
"""

import ipaddress
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import lru_cache

from mqlab.broker import limits

# An address, and the name of a user or, for all users, None.
_Key = tuple[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
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

    def __init__(self, bounds: GuardLimits | None = None) -> None:
        self._bounds = bounds or GuardLimits()
        self._connections: Counter[str] = Counter()
        self._all = 0
        # Times of failures, no more than the limit needs, of a user at an address, and (None) of all users at it;
        # in the order of the last failure.
        self._failures: dict[_Key, deque[float]] = {}

    def admit(self, peer: str) -> str | None:
        """None: it is counted, until `left`. Else why it must go; then it is not counted."""
        if self._all >= self._bounds.connections:
            return f"this broker serves {self._bounds.connections} connections and no more"
        home = _home(peer)
        if _is_elsewhere(home) and self._connections[home] >= self._bounds.an_address:
            return f"this broker serves {self._bounds.an_address} connections from one address and no more"
        self._all += 1
        self._connections[home] += 1
        return None

    def release(self, peer: str) -> None:
        home = _home(peer)
        assert self._connections[home] > 0, "a connection was released without having been admitted"
        self._all -= 1
        self._connections[home] -= 1
        if not self._connections[home]:
            del self._connections[home]

    def failures(self, peer: str, name: str, now: float) -> int:
        """Recent failed logins with the name of this user from this address."""
        return len(self._recent(_pair(peer, name), now))

    def is_suspect(self, peer: str, now: float) -> bool:
        """Whether so many logins failed from this address, whatever the user, that its passwords are checked slowly."""
        return len(self._recent((_home(peer), None), now)) >= self._bounds.failures

    def failed_login(self, peer: str, name: str, now: float) -> float:
        """Seconds after which to answer: each failure of the same user and address doubles them."""
        self._add((_home(peer), None), now)
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
    # A longer name is no user's, and must not take more memory than one.
    return _home(peer), name[: limits.USER_NAME]


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
