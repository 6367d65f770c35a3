"""How far ahead a producer is, of a system that takes so many messages a second, with a clock that only the test moves.

A producer itself is not endlessly quick: a send takes it some time, and so does each of its messages.
"""

import asyncio
from collections import deque

import pytest

from mqlab.drivers import Sender
from mqlab.drivers.api import Matrix, MessageHeaders, Properties
from mqlab.runner.agents import pacing
from mqlab.runner.agents.pacing import AHEAD_SECONDS, SendAhead

_SEND, _EACH = 20e-6, 0.1e-6
# From the moment when the system has taken something to the moment when the producer knows.
_ANSWER = 0.5e-3


class System(Sender):
    """Takes messages in their order, one after the other; from `pause` on it takes none for a second."""

    def __init__(self, rate: float, pause: float = 1e9) -> None:
        self.now = self.busy_until = self.idle = 0.0
        self.rate = rate
        self.sent = 0
        self._pause = pause
        self._untaken: deque[tuple[float, int]] = deque()

    async def produce(self, most: int, until: float) -> SendAhead:
        one = SendAhead(most)
        while self.now < until:
            rows = one.next_count
            assert 1 <= rows <= most
            self._send(rows)
            await one.after(rows, self)
        return one

    async def wait_accepted(self, max_pending: int) -> None:
        while sum(rows for _, rows in self._untaken) > max_pending:
            when, _ = self._untaken.popleft()
            self.now = max(self.now, when + _ANSWER)

    def _send(self, rows: int) -> None:
        self.now += _SEND + rows * _EACH
        self.idle += max(0.0, self.now - self.busy_until)
        self.busy_until = max(self.now, self.busy_until) + rows / self.rate
        if self.busy_until > self._pause:
            self.busy_until, self._pause = self.busy_until + 1, 1e9
        self.sent += rows
        self._untaken.append((self.busy_until, rows))

    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def produced(system: System, monkeypatch: pytest.MonkeyPatch, most: int = 5000, until: float = 2.0) -> SendAhead:
    monkeypatch.setattr(pacing, "now", lambda: round(system.now * 1e9))
    return asyncio.run(system.produce(most, until))


@pytest.mark.parametrize("rate", [100, 3_000, 50_000, 1_000_000])
def test_a_system_never_waits_and_has_a_tenth_of_a_second_ahead(rate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(rate)
    one = produced(system, monkeypatch)
    assert system.idle < 0.01
    assert rate * AHEAD_SECONDS / 2 <= one.messages <= rate * AHEAD_SECONDS * 2
    assert system.busy_until - system.now < 2 * AHEAD_SECONDS


def test_a_system_that_is_slow_from_the_start_is_not_flooded(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(20)
    produced(system, monkeypatch, until=0.9)
    assert system.sent <= 128


def test_who_takes_more_than_a_producer_can_send_holds_nobody_back(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(1e12)
    produced(system, monkeypatch)
    # Of whole batches, but for the first few.
    assert system.sent > 0.95 * 2 / (_SEND + 5000 * _EACH) * 5000


def test_after_a_pause_the_system_gets_all_it_can_take_again(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(50_000, pause=1.0)
    one = produced(system, monkeypatch, until=3.0)
    assert system.idle < 0.01
    assert one.messages >= 50_000 * AHEAD_SECONDS / 2


def test_never_more_at_once_than_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert produced(System(1_000_000), monkeypatch, most=1, until=0.1).next_count == 1


def test_many_producers_begin_with_less() -> None:
    assert [SendAhead(5000, producers).messages for producers in (1, 4, 15, 1000)] == [128, 32, 8, 8]
