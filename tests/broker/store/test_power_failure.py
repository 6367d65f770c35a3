"""The power goes, or the process dies, between any two calls of the file layer: nothing confirmed is lost.

Recovery must give the messages as they were after some record that is no earlier than the last one that was called
durable: so nothing confirmed is lost, nothing appears that was not sent, and no transaction comes back in part.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlab.broker.core.records import Record
from mqlab.broker.store.files import Files
from mqlab.broker.store.recovery import recover

from .disk import Call, Disk, Image, RecordedFiles, write_image
from .machine import Machine, found_in, live_after

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
    """A disk image, and what must be true of it."""

    def __init__(self, image: Image, records: list[tuple[int, Record]], durable: int) -> None:
        self.image = image
        self.records = records
        self.durable = durable

    def check(self, folder: Path, files: Files) -> int:
        """Recover, and return the last record that was found."""
        found = recover(folder, files)
        assert self.durable <= found.lsn, f"record {self.durable} was durable, recovery ends at {found.lsn}"
        assert found_in(found) == live_after(self.records, found.lsn)
        return found.lsn


def crashes(begin: Image, log: list[Call], known: list[tuple[int, Record]], seed: int) -> Iterator[Crash]:
    """After every call: killed, and in each way in which the power can fail."""
    chance = random.Random(seed)
    disk, records, durable = Disk(begin), [*known], known[-1][0] if known else 0
    for call in log:
        if call.what == "note":
            said = call.note
            assert isinstance(said, tuple)
            if said[0] == "record":
                records.append(said[1:])
            else:
                durable = said[1]
            continue
        disk.do(call)
        yield Crash(disk.after_kill(), [*records], durable)
        for image in disk.after_power_failure(chance):
            yield Crash(image, [*records], durable)


def run(folder: Path, seed: int) -> Machine:
    machine = Machine(folder, RecordedFiles(), seed=seed)
    for _ in range(STEPS):
        machine.step()
    return machine


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_lost_and_nothing_else_appears(folder: Path, seed: int) -> None:
    machine = run(folder, seed)
    machine.leave()
    points = torn = 0
    for crash in crashes({}, machine.files.log, [], seed):
        write_image(folder, crash.image)
        last = crash.check(folder, Files())
        torn += last < len(crash.records)
        points += 1
    # A workload that proves nothing would pass too.
    assert machine.confirmations > 10
    assert len({call.name for call in machine.files.log if call.what == "create"}) > 3
    assert any(call.what == "remove" for call in machine.files.log)
    assert points > 150
    assert torn > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_crash_loses_nothing_either(folder: Path, seed: int) -> None:
    """Also in the midst of recovery, and after the first crash was one of the process alone."""
    chance = random.Random(seed)
    first = run(folder, seed)
    first.leave()
    points = [*crashes({}, first.files.log, [], seed)]
    for crash in chance.sample(points, 6):
        write_image(folder, crash.image)
        second = Machine(folder, RecordedFiles(), seed=seed + 1)
        known = [one for one in crash.records if one[0] <= second.recovered.lsn]
        assert found_in(second.recovered) == live_after(known, second.recovered.lsn)
        for _ in range(30):
            second.step()
        second.leave()
        for again in crashes(crash.image, second.files.log, known, seed):
            # What was known durable before the first crash is the least that must be there during recovery.
            begun = again.durable > second.recovered.lsn
            again.durable = again.durable if begun else min(again.durable, crash.durable)
            write_image(folder, again.image)
            again.check(folder, Files())


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
        found = recover(folder, Files())
        assert found.torn == 0
        assert found_in(found) == live_after(machine.records, machine.core.lsn)
