"""The power goes, or the process dies, between any two calls of the file layer: nothing confirmed is lost.

Recovery must give everything as it was after some record that is no earlier than the last one that was called
durable: so nothing confirmed is lost, nothing appears that was not sent, no transaction comes back in part, and what
was prepared, forgotten or to be remembered is so again. The workload has checkpoints and, in some runs, a full disk.
"""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remove
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import recover
from mqlab.broker.store.segments import segment_path

from .disk import Call, Disk, RecordedFiles, write_image
from .journal_state import StatesByRecord, differences, state_of
from .machine import KEEP_IN_MEMORY, Machine, small_settings

# The long form crashes at more than 10,000 points.
SEEDS = range(60 if os.environ.get("MQLAB_TORTURE") else 8)
STEPS = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """In memory where there is such a place: these tests imitate the disk and need not wait for one."""
    fast = Path("/dev/shm")
    if not fast.is_dir():
        return tmp_path / "data"
    return Path(os.path.join(fast, f"mqlab-test-{os.getpid()}"))


@pytest.fixture(autouse=True)
def _clean(folder: Path) -> Iterator[None]:
    write_image(folder, {})
    yield
    write_image(folder, {})
    folder.rmdir()


class Crash:
    """A moment after which nothing more happened: what is found then, and what must be true of it."""

    def __init__(self, disk: Disk, applied: StatesByRecord, durable: int) -> None:
        self.disk = disk
        self.applied = applied
        self.appended = applied.last
        self.durable = durable

    def check(self, folder: Path) -> int:
        """Recover, and return the last record that was found."""
        write_image(folder, self.disk.after_kill())
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert self.durable <= found.lsn <= self.appended, f"{self.durable} was durable, recovery ends at {found.lsn}"
        assert not differences(state_of(found), self.applied.after(found.lsn))
        return found.lsn


def crashes(begin: Disk, log: list[Call], known: list[tuple[int, Record]], seed: int) -> Iterator[Crash]:
    """After every call: killed, and in each way in which the power can fail."""
    chance = random.Random(seed)
    disk, applied = begin.copy(), StatesByRecord(known)
    durable = applied.last
    for call in log:
        if call.what == "note":
            said = call.note
            assert isinstance(said, tuple)
            if said[0] == "record":
                applied.apply(*said[1:])
            else:
                durable = said[1]
            continue
        disk.do(call)
        # Killed, it still has on its way to disk what it had: the power may go later.
        yield Crash(disk.copy(), applied, durable)
        for image in disk.after_power_failure(chance):
            yield Crash(Disk(image), applied, durable)


def run(folder: Path, seed: int, *, capacity: int | None = None) -> Machine:
    settings = small_settings(folder, log_length=3000 if seed % 2 else 1500)
    files = RecordedFiles(capacity)
    # Where space cannot be reserved, a write may fail in the midst of a record, and is cut back.
    files.can_reserve = capacity is None or seed % 2 == 0
    machine = Machine(folder, files, settings=settings, seed=seed)
    for _ in range(STEPS):
        machine.step()
    return machine


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_lost_and_nothing_else_appears(
    folder: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    small = seed % 3 == 2
    machine = run(folder, seed, capacity=5000 if small else None)
    machine.leave()
    points = torn = 0
    for crash in crashes(Disk({}), machine.files.log, [], seed):
        torn += crash.check(folder) < crash.appended
        points += 1
    record_property("points", points)
    # A workload that proves nothing would pass too. On a small disk little happens while it is full.
    assert points > 100
    assert torn > 20
    if not small:
        assert machine.confirmations > 10
        assert len({call.name for call in machine.files.log if call.what == "create"}) > 3
        assert any(call.what == "remove" for call in machine.files.log)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_crash_loses_nothing_either(folder: Path, seed: int) -> None:
    """Also in the midst of recovery, and after the first crash was one of the process alone."""
    chance = random.Random(seed)
    first = run(folder, seed)
    first.leave()
    points = [*crashes(Disk({}), first.files.log, [], seed)]
    for crash in chance.sample(points[::4], 4) + chance.sample(points, 4):
        write_image(folder, crash.disk.after_kill())
        second = Machine(folder, RecordedFiles(), seed=seed + 1)
        found = second.recovered.lsn
        known = [one for one in first.records if one[0] <= found]
        for _ in range(30):
            second.step()
        second.leave()
        ready = False
        for again in crashes(crash.disk, second.files.log, known, seed):
            # What recovery has found is safe from the moment the journal goes on in a new file; before that, what
            # was durable before the first crash is the least that must be there.
            ready = ready or segment_path(folder, second.recovered.next_file).name in again.disk.safe
            again.durable = max(again.durable, found) if ready else crash.durable
            again.check(folder)


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_stop_in_good_order_everything_is_there(folder: Path, seed: int) -> None:
    machine = run(folder, seed)
    machine.finish()
    machine.journal.close()
    disk = Disk({})
    for call in machine.files.log:
        if call.what != "note":
            disk.do(call)
    for image in disk.after_power_failure(random.Random(seed)):
        write_image(folder, image)
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert found.torn == 0
        # And one record more, which says that it was a good order.
        assert found.lsn == machine.lsn + 1
        assert not differences(state_of(found), StatesByRecord(machine.records).after(machine.lsn))


def test_the_workload_has_all_that_can_happen(folder: Path) -> None:
    """Or what is proved above would not be of much use."""
    kinds: set[type] = set()
    checkpoints = carried = fulls = cuts = 0
    for seed in range(18):
        write_image(folder, {})
        machine = run(folder, seed, capacity=5000 if seed % 3 == 2 else None)
        machine.leave()
        kinds |= {type(record) for _, record in machine.records}
        checkpoints += machine.journal.counters.checkpoints
        carried += machine.journal.counters.carried_bytes
        fulls += len([reason for reason in machine.full if reason])
        cuts += sum(call.what == "cut" for call in machine.files.log)
    assert kinds >= {Declare, Forget, Put, Remove, Commit, Prepare, Decide}
    assert checkpoints > 10
    assert carried > 2000
    assert fulls > 2
    assert cuts > 2
