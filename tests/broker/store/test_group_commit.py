"""When to sync: a simulated disk, simulated producers that each wait for their confirmation, and simulated time."""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import Declare, Put, Remember
from mqlab.broker.settings import Settings
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.group_commit import MAX_SYNCS_IN_PROGRESS, SyncSchedule
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.segments import Segments
from mqlab.wire.native.bodies import SINGLE, Payload

PAYLOAD = Payload(b"x" * 12, 1, SINGLE)
TURN_SECONDS = 0.004
FAST = 50e-6


class NoFiles(Files):
    """No disk: a sync takes the time that the simulation says, and nothing else takes any."""

    def __init__(self) -> None:
        self.on_sync: Callable[[], None] = lambda: None
        self.created = 0
        self._last = 0

    def create(self, path: Path) -> int:
        self.created += 1
        return self.reopen(path)

    def reopen(self, path: Path) -> int:  # noqa: ARG002
        self._last += 1
        return self._last

    def append(self, file: int, data: bytes) -> None: ...

    def reserve(self, file: int, size: int) -> bool:  # noqa: ARG002
        return True

    def give_back(self, file: int, size: int) -> None: ...

    def sync(self, file: int) -> None:  # noqa: ARG002
        self.on_sync()

    def close(self, file: int) -> None: ...

    def remove(self, path: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...

    def overwrite(self, file: int, data: bytes, offset: int) -> None: ...

    def length(self, file: int) -> int:  # noqa: ARG002 - longer than all that is ever written
        return 1 << 40


class Simulation:
    """The journal's host, in a world where only events take time."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, sync_ends: Callable[[float], float], *,
        segment_size: int = 64 * 1024 * 1024, group_delay: int = 0,
    ) -> None:  # fmt: skip
        self.now = 1.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sync_ends = sync_ends
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self.groups: list[int] = []
        self.waits: list[float] = []
        self.asked: list[float] = []
        self.quick: list[bool] = []
        self._lsn = self._durable = 0
        # The same clock is in place of the module everywhere in the journal.
        monkeypatch.setattr("mqlab.broker.store.journal.time.perf_counter", lambda: self.now)
        self.files = NoFiles()
        settings = Settings(data=Path("unused"), segment_size=segment_size, group_delay=group_delay)
        self.journal = Journal(settings, Path("unused"), self.files, self, Segments())
        self.journal.start(1, 0)

    def at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, len(self._events) + random.getrandbits(40), action))

    def send(self, producer: object, confirmed: Callable[[], None]) -> None:
        self._lsn += 1
        self._waiting.append((self._lsn, confirmed))
        self.journal.append(Put(((1, self._lsn),), PAYLOAD), self._lsn, producer)
        self.journal.flush()

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            when, _, action = heapq.heappop(self._events)
            self.now = max(self.now, when)
            action()

    def run_sync(self, work: Callable[[], None], done: Callable[[BaseException | None], None], *, quick: bool) -> None:
        asked = self.now
        self.asked.append(asked)
        self.quick.append(quick)

        def end() -> None:
            """Done in one go when it ends; for the work itself, it began when it was asked for."""
            ended, self.now = self.now, asked
            self.files.on_sync = lambda: setattr(self, "now", ended)
            work()
            done(None)

        if quick:
            # Nothing else happens until it has ended.
            self.now = self._sync_ends(asked)
            end()
        else:
            self.at(self._sync_ends(asked), end)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        self.waits.append(seconds)
        self.at(self.now + seconds, action)

    def on_durable(self, lsn: int) -> None:
        ready = [confirmed for number, confirmed in self._waiting if number <= lsn]
        self._waiting = [one for one in self._waiting if one[0] > lsn]
        self.groups.append(len(ready))
        for confirmed in ready:
            confirmed()

    def on_failure(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_disk_full(self, reason: str) -> None:
        raise AssertionError(reason)

    def declarations(self) -> Iterable[Declare]:
        return []

    def remembered(self) -> Iterable[Remember]:
        return []

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        """Nothing is ever consumed here, so nothing is ever carried forward."""
        raise AssertionError((intervals, xids))


class WaitingProducer:
    """Sends, waits for the confirmation, thinks for a moment, sends again."""

    def __init__(self, simulation: Simulation, think: Callable[[], float]) -> None:
        self._simulation = simulation
        self._think = think
        self.confirmed = 0

    def go(self) -> None:
        self._simulation.send(self, self._done)

    def _done(self) -> None:
        self.confirmed += 1
        self._simulation.at(self._simulation.now + self._think(), self.go)


def steady(now: float) -> float:
    return now + TURN_SECONDS


def rotating(now: float) -> float:
    """At the next mark: anything from nothing to a whole turn."""
    return (now // TURN_SECONDS + 1) * TURN_SECONDS


def producers(simulation: Simulation, count: int, seed: int) -> list[WaitingProducer]:
    chance = random.Random(seed)
    made = [WaitingProducer(simulation, lambda: chance.uniform(20e-6, 400e-6)) for _ in range(count)]
    for one in made:
        simulation.at(1.0 + chance.uniform(0, 2 * TURN_SECONDS), one.go)
    return made


@pytest.mark.parametrize("count", range(1, 41))
def test_one_sync_serves_all_producers_of_a_rotating_disk(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, rotating)
    made = producers(simulation, count, seed=count)
    simulation.run(until=2.0)
    settled = simulation.groups[10:]
    assert sum(settled) / len(settled) > 0.9 * count
    # And each of them is confirmed at every mark.
    assert min(one.confirmed for one in made) > 0.95 * 1.0 / TURN_SECONDS


@pytest.mark.parametrize("count", range(1, 41))
def test_no_producer_waits_for_two_syncs_of_a_slow_disk(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes late for one sync need not wait for its end; and there are never more under way than allowed."""
    simulation = Simulation(monkeypatch, steady)
    made = producers(simulation, count, seed=count)
    simulation.run(until=2.0)
    assert min(one.confirmed for one in made) > 0.9 * 1.0 / (TURN_SECONDS + 210e-6)
    under_way = [sum(one <= at < one + TURN_SECONDS for one in simulation.asked) for at in simulation.asked]
    assert max(under_way) <= MAX_SYNCS_IN_PROGRESS
    assert len(simulation.asked) <= sum(one.confirmed for one in made) + MAX_SYNCS_IN_PROGRESS


def test_a_journal_under_constant_load_goes_on_in_new_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or one file would grow for ever, and nothing of it could be removed."""
    simulation = Simulation(monkeypatch, steady, segment_size=64 * 1024)
    producers(simulation, 40, seed=1)
    simulation.run(until=2.0)
    assert simulation.files.created > 3


@pytest.mark.parametrize("disk", [steady, rotating, lambda now: now + 50e-6])
def test_a_single_sender_waits_for_nobody(disk: Callable[[float], float], monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, disk)
    sent: list[float] = []
    (producer,) = producers(simulation, 1, seed=1)
    go = producer.go

    def noted() -> None:
        sent.append(simulation.now)
        go()

    monkeypatch.setattr(producer, "go", noted)
    simulation.run(until=2.0)
    assert producer.confirmed > 100
    assert simulation.waits == []
    assert simulation.asked[1:] == sent[: len(simulation.asked) - 1]


def test_a_single_waiter_of_a_fast_disk_is_served_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, lambda now: now + FAST)
    (producer,) = producers(simulation, 1, seed=1)
    simulation.run(until=1.1)
    assert producer.confirmed > 100
    # As soon as the disk is known.
    assert simulation.quick == [False] * 4 + [True] * (len(simulation.quick) - 4)


@pytest.mark.parametrize("disk", [steady, rotating])
def test_a_slow_disk_is_synced_in_a_thread(disk: Callable[[float], float], monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, disk)
    producers(simulation, 1, seed=1)
    simulation.run(until=2.0)
    assert not any(simulation.quick)


def test_one_slow_sync_is_enough_to_do_the_next_ones_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, lambda now: now + (TURN_SECONDS if len(simulation.asked) == 10 else FAST))
    producers(simulation, 1, seed=1)
    simulation.run(until=1.1)
    assert simulation.quick[4:20] == [True] * 6 + [False] * 4 + [True] * 6


def test_several_that_wait_are_served_elsewhere() -> None:
    """While one sync serves many, others have something to say."""
    gathering = SyncSchedule()
    for _ in range(4):
        gathering.begin(0.0)
        gathering.end(FAST)
    assert not gathering.is_quick
    gathering.wait("one", 0.0)
    assert gathering.is_quick
    gathering.wait("another", 0.0)
    assert not gathering.is_quick
    gathering.begin(0.0)
    gathering.wait("one", 0.0)
    assert not gathering.is_quick


def test_a_sync_that_follows_from_a_sync_does_not_run_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each confirmation is at once followed by the next send, the stack would never end."""
    simulation = Simulation(monkeypatch, lambda now: now + FAST)
    confirmed = 0

    def again() -> None:
        nonlocal confirmed
        confirmed += 1
        simulation.send("one", again)

    simulation.send("one", again)
    simulation.run(until=1.1)
    assert confirmed > 1000


def test_when_other_producers_stop_the_last_one_is_delayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(monkeypatch, steady)
    made = producers(simulation, 5, seed=1)
    simulation.run(until=1.5)
    for one in made[1:]:
        monkeypatch.setattr(one, "go", lambda: None)
    waited = len(simulation.waits)
    before = made[0].confirmed
    simulation.run(until=2.0)
    assert made[0].confirmed - before > 0.8 * 0.5 / (TURN_SECONDS + 400e-6)
    assert len(simulation.waits) - waited <= 5


def test_the_delay_is_next_to_nothing_on_a_fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """There gathering is not worth the time; only a second sync waits a moment for the first one's end."""
    simulation = Simulation(monkeypatch, lambda now: now + 50e-6)
    chance = random.Random(3)
    for _ in range(10):
        one = WaitingProducer(simulation, lambda: chance.uniform(1e-3, 20e-3))
        simulation.at(1.0 + chance.uniform(0, 0.02), one.go)
    simulation.run(until=3.0)
    assert simulation.waits
    assert max(simulation.waits) <= 0.0005


@pytest.mark.parametrize("count", [1, 2, 10])
def test_a_fixed_delay_holds_every_sync_back(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a lone sender: it is a setting, to show what it costs and what it brings."""
    delay = 2000
    simulation = Simulation(monkeypatch, lambda now: now + 50e-6, group_delay=delay)
    made = producers(simulation, count, seed=3)
    simulation.run(until=2.0)
    assert min(one.confirmed for one in made) > 0.85 * 1.0 / (delay / 1e6 + 450e-6)
    assert max(one.confirmed for one in made) < 1.0 / (delay / 1e6 + 50e-6)
    # All of them come back within the delay, so each sync serves all.
    settled = simulation.groups[10:]
    assert sum(settled) / len(settled) > 0.9 * count
