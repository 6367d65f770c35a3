"""Journal files: when a new one begins, when an old one goes, and that confirmations come after their sync."""

from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import Declare, Put, Remove
from mqlab.broker.store.manifest import NAME as MANIFEST
from mqlab.broker.store.recovery.decoding import UnreadableRecordError, decode, decode_file_header
from mqlab.broker.store.segments import segment_numbers, segment_path
from mqlab.wire.native.bodies import encode

from .disk import Call, Disk, RecordedFiles
from .journal_state import StatesByRecord, differences, state_of
from .machine import Machine, small_settings
from .small_core import Message, SmallCore


def test_a_record_is_called_durable_only_when_it_was_written_and_then_synced(tmp_path: Path) -> None:
    """Proved from the trace of the file layer: at each promise, the record lies in what a power failure leaves."""
    promises = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        machine = Machine(folder, RecordedFiles(), seed=seed)
        for _ in range(150):
            machine.step()
        disk = Disk({})
        for call in machine.files.log:
            if call.what != "note":
                disk.do(call)
            elif isinstance(call.note, tuple) and call.note[0] == "durable":
                promises += 1
                assert call.note[1] <= _last_record_in(disk)
    assert promises > 80


def _last_record_in(disk: Disk) -> int:
    last = 0
    for inode in disk.safe.values():
        try:
            header = decode_file_header(inode.synced)
            at, last = header.size, max(last, header.first_lsn - 1)
            while at < len(inode.synced):
                read = decode(inode.synced, at)
                at, last = read.end, max(last, read.lsn)
        except UnreadableRecordError:
            continue
    return last


def test_consumed_files_are_removed_and_the_rest_stays(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(), seed=4)
    for _ in range(800):
        machine.step()
    machine.finish()
    made = sum(call.what == "create" and call.name != MANIFEST for call in machine.files.log)
    left = segment_numbers(tmp_path)
    assert made > 20
    assert len(left) < made
    assert left == [*range(left[0], made + 1)]
    machine.journal.close()
    again = Machine(tmp_path, RecordedFiles())
    assert not differences(state_of(again.recovered), StatesByRecord(machine.records).after(machine.lsn))
    assert again.recovered.torn == 0
    assert again.recovered.next_file == made + 1


def test_without_sync_files_are_removed_and_closed_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(), seed=4)
    object.__setattr__(machine.settings, "sync", "off")
    heads = machine.files.syncs
    for _ in range(800):
        machine.step()
    made = sum(call.what == "create" and call.name != MANIFEST for call in machine.files.log)
    assert made > 20
    assert len(segment_numbers(tmp_path)) < made
    assert machine.confirmations > 50
    # Only what begins and ends a file is synced: it is the number of files that counts, not that of messages.
    assert machine.files.syncs - heads <= 2 * made


def test_a_removal_lasts_before_the_next_file_is_removed(tmp_path: Path) -> None:
    """Also where syncs overlap: one that began before a removal says nothing of it."""
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        machine = Machine(folder, RecordedFiles(), seed=seed)
        for _ in range(300):
            machine.step()
        unsynced = 0
        for call in machine.files.log:
            if call.what == "sync_folder":
                unsynced = 0
            unsynced += call.what == "remove"
            assert unsynced < 2
        machine.leave()


def journal_with_a_survivor(folder: Path, *, log_length: int) -> Machine:
    """One message in the first file is never consumed, all others are."""
    machine = Machine(folder, RecordedFiles(), settings=small_settings(folder, log_length=log_length))
    queue = machine.core.queues[1]
    for number in range(60):
        machine.core.emit(Put(((1, queue.next_id),), encode([b"%d" % number + b"." * 90])), True)
        machine.core.queues[1].live[queue.next_id] = survivor_message(number)
        if number:
            del queue.live[queue.next_id]
            machine.core.emit(Remove(1, ((queue.next_id, 1),)), False)
        queue.next_id += 1
        machine.finish()
    return machine


def survivor_message(number: int) -> Message:
    return Message(b"%d" % number + b"." * 90)


def test_a_checkpoint_carries_what_is_needed_forward_so_that_old_files_go(tmp_path: Path) -> None:
    machine = journal_with_a_survivor(tmp_path, log_length=3000)
    counters = machine.journal.counters
    assert counters.checkpoints > 1
    assert 0 < counters.carried_bytes < 1000
    assert machine.journal.length < 3000 + 2 * 1000
    assert len(segment_numbers(tmp_path)) < 6
    machine.journal.close()
    again = Machine(tmp_path, RecordedFiles())
    assert state_of(again.recovered).live == {1: {1: survivor_message(0).body}}


def test_a_journal_that_is_short_enough_is_left_alone(tmp_path: Path) -> None:
    machine = journal_with_a_survivor(tmp_path, log_length=1_000_000)
    assert machine.journal.counters.checkpoints == 0
    assert segment_numbers(tmp_path)[0] == 1


def test_a_journal_that_is_needed_is_left_alone(tmp_path: Path) -> None:
    """To write all of it again would not make it shorter."""
    machine = Machine(tmp_path, RecordedFiles(), settings=small_settings(tmp_path, log_length=1000))
    for number in range(1, 60):
        machine.core.emit(Put(((1, number),), encode([b"." * 90])), True)
        machine.finish()
    assert len(segment_numbers(tmp_path)) > 5
    assert machine.journal.counters.checkpoints == 0


def test_what_cannot_be_carried_forward_ends_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is needed and cannot be read: going on would lose it."""

    def unreadable(*_: object) -> None:
        raise OSError("cannot be read")

    monkeypatch.setattr(SmallCore, "carry_forward", unreadable)
    machine = journal_with_a_survivor(tmp_path, log_length=3000)
    assert [str(error) for error in machine.failures] == ["cannot be read"]
    assert 1 in segment_numbers(tmp_path)


def test_a_new_file_says_what_must_be_known_without_the_old_ones(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(), seed=3)
    for _ in range(600):
        machine.step()
    newest = max(segment_numbers(tmp_path))
    assert newest > 10
    header = decode_file_header(segment_path(tmp_path, newest).read_bytes())
    state = StatesByRecord(machine.records).after(header.first_lsn - 1)
    assert {one.queue: one.name for one in header.declarations} == state.names
    assert {one.queue: one.options for one in header.declarations} == state.options
    assert {one.destination: [*one.ids] for one in header.remembered} == {
        destination: ids for destination, ids in state.remembered.items() if ids
    }
    assert header.last_queue == max(one.queue for _, one in machine.records if isinstance(one, Declare))


def test_a_large_append_is_written_before_the_host_says_that_this_was_all(tmp_path: Path) -> None:
    """A checkpoint of a large file would otherwise be in memory twice."""
    machine = Machine(tmp_path, RecordedFiles())
    appends = machine.files.appends
    machine.core.emit(Put(((1, 1),), encode([bytes(5 * 1024 * 1024)])), False)
    assert machine.files.appends == appends + 1


def test_other_names_in_the_folder_are_not_touched(tmp_path: Path) -> None:
    others = ["lock", "journal-1", "journal-00000000001", "journal-000000000x", "notes.txt"]
    for name in others:
        (tmp_path / name).write_text("mine")
    machine = Machine(tmp_path, RecordedFiles())
    for _ in range(100):
        machine.step()
    assert all((tmp_path / name).read_text() == "mine" for name in others)


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    segment_path(tmp_path, 1).write_bytes(b"")
    files = RecordedFiles()
    with pytest.raises(FileExistsError):
        files.create(segment_path(tmp_path, 1))


def test_journal_files_are_for_their_owner_only(tmp_path: Path) -> None:
    Machine(tmp_path, RecordedFiles())
    assert segment_path(tmp_path, 1).stat().st_mode & 0o077 == 0


def test_the_log_of_a_run_has_all_kinds_of_calls(tmp_path: Path) -> None:
    """The stand-in must see what it is to prove something about."""
    machine = Machine(tmp_path, RecordedFiles(), seed=1)
    for _ in range(400):
        machine.step()
    kinds = {call.what for call in machine.files.log if isinstance(call, Call)}
    assert {"create", "append", "sync", "sync_folder", "remove", "note"} <= kinds
