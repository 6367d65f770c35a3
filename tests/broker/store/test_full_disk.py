"""A disk without room: nothing fails, what is consumed makes room, and then it goes on. And a limit of descriptors."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlab.broker.core.durability.pending_records import journal_bytes
from mqlab.broker.core.durability.records import Put, Remove
from mqlab.broker.settings import Settings
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import recover
from mqlab.broker.store.segments import segment_numbers
from mqlab.wire.native.bodies import encode

from .disk import RecordedFiles
from .journal_state import StatesByRecord, differences, state_of
from .machine import KEEP_IN_MEMORY, Clock, Machine, small_settings
from .small_core import Message

KIB, MIB = 1024, 1024 * 1024
SEEDS = range(200 if os.environ.get("MQLAB_TORTURE") else 25)


class Sender:
    """Puts and consumes messages of one size on one queue."""

    def __init__(self, machine: Machine, size: int) -> None:
        self._machine = machine
        self._message = Message(b"." * size)
        self._queue = machine.core.queues[1]
        self.kept: set[int] = set()

    @property
    def messages(self) -> int:
        return len(self._queue.live)

    def send(self) -> bool:
        """Whether there was room for it."""
        queue = self._queue
        put = Put(((1, queue.next_id),), encode([self._message.body]))
        if self._machine.core.lacks_room(journal_bytes(put)):
            return False
        queue.live[queue.next_id] = self._message
        queue.next_id += 1
        self._machine.core.emit(put, True)
        return True

    def consume(self, rows: int = 1) -> None:
        """The oldest, but for those that are to be kept."""
        first = next(one for one in self._queue.live if one not in self.kept)
        for one in range(first, first + rows):
            del self._queue.live[one]
        self._machine.core.emit(Remove(1, ((first, rows),)), False)

    def consume_until_there_is_room(self) -> None:
        while self._machine.journal.full:
            assert len(self.kept) < self.messages, "all of it was consumed, and the disk is still full"
            # As the core does while the disk is full: neighbours share a record.
            self.consume(min(10, self.messages - len(self.kept)))
            self._machine.finish()

    def fill(self, most: int = 2000) -> None:
        for _ in range(most):
            if self._machine.journal.full:
                return
            self.send()
            self._machine.finish()
        raise AssertionError("the disk was never full")

    def check(self, folder: Path) -> None:
        """After a restart: exactly what was sent and not consumed."""
        found = recover(folder, Files(), 0)
        ranges = [one for span in found.queues[1].spans() for one in span.ranges()]
        ids = [one for first, rows in ranges for one in range(first, first + rows)]
        assert ids == [*self._queue.live]


def test_a_full_disk_is_reported_and_consumers_make_room(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(capacity=20_000), settings=small_settings(tmp_path, segment_size=3000))
    sender = Sender(machine, 90)
    sender.fill()
    assert machine.full == ["No space left on device"]
    assert machine.journal._full_disk.reason == "No space left on device"
    assert machine.failures == []
    # All that was sent is confirmed, and consumption is written where sends had reached the end of the file.
    assert machine.durable == machine.lsn
    sender.consume_until_there_is_room()
    assert machine.full[-1] == ""
    assert segment_numbers(tmp_path)[0] > 1
    before = machine.durable
    sender.send()
    machine.finish()
    assert machine.durable > before
    machine.journal.close()
    sender.check(tmp_path)


def test_without_a_reserve_what_does_not_fit_waits_in_its_order(tmp_path: Path) -> None:
    """The last write may be cut in the middle; what is left of it is not a record, and nobody was told anything."""
    settings = small_settings(tmp_path, segment_size=2000)
    files = RecordedFiles(capacity=9_000)
    files.can_reserve = False
    machine = Machine(tmp_path, files, settings=settings)
    sender = Sender(machine, 90)
    sender.fill()
    assert machine.durable < machine.lsn
    durable = machine.durable
    for _ in range(5):
        sender.consume()
        machine.finish()
    # Not even that can be written. Somebody else makes room:
    assert machine.durable == durable
    files.capacity = 12_000
    machine.finish()
    assert machine.durable == machine.lsn
    assert machine.full == ["No space left on device", ""]
    machine.journal.close()
    sender.check(tmp_path)
    kinds = [call.what for call in files.log]
    assert "cut" in kinds


def test_a_stop_on_a_full_disk_is_no_stop_in_good_order_but_loses_nothing(tmp_path: Path) -> None:
    settings = small_settings(tmp_path, segment_size=2000)
    files = RecordedFiles(capacity=9_000)
    files.can_reserve = False
    machine = Machine(tmp_path, files, settings=settings)
    sender = Sender(machine, 90)
    sender.fill()
    machine.journal.closing = True
    machine.journal.close()
    found = recover(tmp_path, Files(), 0)
    assert found.torn == 0
    assert found.lsn == machine.durable
    assert not differences(state_of(found), StatesByRecord(machine.records).after(machine.durable))


def test_a_broker_starts_on_a_full_disk_and_can_be_emptied(tmp_path: Path) -> None:
    first = Machine(tmp_path, RecordedFiles(capacity=20_000))
    sender = Sender(first, 90)
    sender.fill()
    first.leave()
    used = sum(path.stat().st_size for path in tmp_path.iterdir())
    files = RecordedFiles(capacity=4500)
    # What is there counts for nothing in this stand-in: so much is left beside it.
    assert used > 10_000
    second = Machine(tmp_path, files, settings=small_settings(tmp_path, segment_size=8000))
    assert second.full == ["the disk has no space for another file"]
    again = Sender(second, 90)
    assert again.messages == sender.messages > 100
    again.consume(again.messages - 10)
    second.finish()
    assert len(segment_numbers(tmp_path)) < 5
    files.capacity = None
    second.finish()
    assert second.full[-1] == ""
    second.journal.close()
    again.check(tmp_path)


def test_a_journal_without_room_for_a_file_header_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        Machine(tmp_path, RecordedFiles(capacity=20))
    assert segment_numbers(tmp_path) == []


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.EDQUOT])
def test_a_file_that_cannot_begin_now_begins_later(tmp_path: Path, error: int) -> None:
    files = RecordedFiles()
    files.fail_create_at, files.create_error = 3, error
    machine = Machine(tmp_path, files)
    sender = Sender(machine, 90)
    while not machine.full:
        sender.send()
        machine.finish()
        assert sender.messages < 60
    assert machine.full == [os.strerror(error), ""]
    assert len(segment_numbers(tmp_path)) == 3
    assert machine.durable == machine.lsn
    machine.journal.close()
    sender.check(tmp_path)


def test_it_is_tried_again_every_second_and_not_more_often(tmp_path: Path, clock: Clock) -> None:
    files = RecordedFiles(capacity=6000)
    machine = Machine(tmp_path, files)
    Sender(machine, 90).fill()
    tries = files.reserves
    for _ in range(100):
        machine.journal.flush()
    assert files.reserves == tries
    begin = clock.now
    machine.finish()
    # Another part of the file, and then another file, of any of four sizes.
    assert 0 < files.reserves - tries <= 5 * (clock.now - begin + 1)


def test_a_message_that_is_never_consumed_does_not_keep_the_disk_full(tmp_path: Path) -> None:
    """It is carried forward, as long as there is room for it."""
    machine = Machine(tmp_path, RecordedFiles(capacity=40_000), settings=small_settings(tmp_path, segment_size=8000))
    sender = Sender(machine, 50)
    sender.fill()
    sender.kept = {1}
    sender.consume(120)
    machine.finish()
    assert machine.full[-1] == ""
    assert machine.journal.counters.checkpoints > 0
    assert segment_numbers(tmp_path)[0] > 1
    machine.journal.close()
    sender.check(tmp_path)


def test_no_descriptor_for_an_overlapping_sync_means_waiting_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Files, path: Path) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(RecordedFiles, "reopen", fails)
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        machine = Machine(folder, RecordedFiles(), seed=seed)
        for _ in range(200):
            machine.step()
        machine.finish()
        assert machine.failures == []
        assert machine.confirmations > 10
        assert machine.unconfirmed == []


def test_any_schedule_on_a_small_disk_loses_nothing_and_ends_well(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    fulls = 0
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        machine = Machine(folder, RecordedFiles(4000 + 100 * (seed % 20)), seed=seed)
        for _ in range(400):
            machine.step()
        assert machine.failures == []
        fulls += len([reason for reason in machine.full if reason])
        machine.drain()
        machine.files.capacity = None
        machine.finish()
        assert not machine.journal.full
        assert machine.unconfirmed == []
        machine.journal.close()
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert not differences(state_of(found), StatesByRecord(machine.records).after(machine.lsn))
    record_property("schedules", len(SEEDS))
    record_property("times_full", fulls)
    assert fulls > len(SEEDS) // 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real one, in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield folder
    # Also where a test that failed has left a file open.
    subprocess.run(["umount", "-l", str(folder)], check=True)


class RealFiles(RecordedFiles):
    """The real disk decides what fits."""

    reserve = Files.reserve
    give_back = Files.give_back
    trim = Files.trim


@pytest.mark.parametrize("preallocate", [True, False])
def test_a_real_disk_that_is_full(small_disk: Path, preallocate: bool) -> None:
    folder = small_disk / "data"
    folder.mkdir()
    settings = Settings(data=folder, segment_size=512 * KIB, log_length=64 * MIB, preallocate=preallocate)
    machine = Machine(folder, RealFiles(), settings=settings)
    sender = Sender(machine, 20 * KIB)
    sender.fill()
    assert machine.full == ["No space left on device"]
    # Noticed before a write, so all of it is confirmed; and consumption has its reserve.
    assert machine.durable == machine.lsn
    sender.consume_until_there_is_room()
    assert machine.full == ["No space left on device", ""]
    sender.send()
    machine.finish()
    assert machine.durable == machine.lsn
    assert machine.failures == []
    machine.journal.close()
    machine.leave()
    sender.check(folder)
