"""Journal files: when a new one begins, when an old one goes, and that confirmations come after their sync."""

from pathlib import Path

import pytest

from mqlab.broker.core.records import Put, Remove
from mqlab.broker.store.records import Damaged, decode, decode_head
from mqlab.broker.store.segments import Segments, numbers_in, path_of
from mqlab.wire.bodies import encode

from .disk import Call, Disk, RecordedFiles
from .machine import Machine, found_in, live_after


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
            head = decode_head(inode.synced)
            at, last = head.size, max(last, head.first_lsn - 1)
            while at < len(inode.synced):
                read = decode(inode.synced, at)
                at, last = read.end, max(last, read.lsn)
        except Damaged:
            continue
    return last


def test_consumed_files_are_removed_and_the_rest_stays(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(), seed=4)
    for _ in range(600):
        machine.step()
    machine.finish()
    made = sum(call.what == "create" for call in machine.files.log)
    left = numbers_in(tmp_path)
    assert made > 20
    assert len(left) < made
    assert left == [*range(left[0], made + 1)]
    machine.journal.close()
    again = Machine(tmp_path, RecordedFiles())
    assert found_in(again.recovered) == live_after(machine.records, machine.core.lsn)
    assert again.recovered.torn == 0
    assert again.recovered.next_file == made + 1


def test_without_sync_files_are_removed_and_closed_too(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles(), seed=4)
    object.__setattr__(machine.core.settings, "sync", "off")
    heads = machine.files.syncs
    for _ in range(600):
        machine.step()
    made = sum(call.what == "create" for call in machine.files.log)
    assert made > 20
    assert len(numbers_in(tmp_path)) < made
    assert machine.confirmations > 50
    # Only what begins and ends a file is synced: it is the number of files that counts, not that of messages.
    assert machine.files.syncs - heads <= 2 * made


def test_a_file_goes_only_when_its_consumption_is_durable() -> None:
    """Until then a crash brings the messages back, and they must be somewhere."""
    segments = Segments()
    segments.begin(1)
    segments.note(Put(1, 1, encode([b"a", b"b", b"c"])), 1, 1)
    segments.begin(2)
    segments.note(Remove(1, ((1, 2),)), 2, 2)
    segments.note(Remove(1, ((3, 1),)), 3, 2)
    segments.durable(2)
    assert segments.take_unneeded() is None
    segments.durable(3)
    assert segments.take_unneeded() == 1
    assert segments.take_unneeded() is None


def test_a_file_stays_as_long_as_one_before_it_is_needed() -> None:
    """It may say what was consumed of the older one."""
    segments = Segments()
    for number, first_id in ((1, 1), (2, 3), (3, 5)):
        segments.begin(number)
        segments.note(Put(1, first_id, encode([b"a", b"b"])), number, number)
    segments.note(Remove(1, ((3, 2), (5, 2))), 4, 3)
    segments.durable(4)
    assert segments.take_unneeded() is None
    segments.note(Remove(1, ((1, 2),)), 5, 3)
    segments.durable(5)
    # One at a time and the oldest first: if a crash undoes removals, no file between two others is missing.
    assert [segments.take_unneeded() for _ in range(3)] == [1, 2, None]


def test_other_names_in_the_folder_are_not_touched(tmp_path: Path) -> None:
    others = ["lock", "journal-1", "journal-00000000001", "journal-000000000x", "notes.txt"]
    for name in others:
        (tmp_path / name).write_text("mine")
    machine = Machine(tmp_path, RecordedFiles())
    for _ in range(100):
        machine.step()
    assert all((tmp_path / name).read_text() == "mine" for name in others)


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    path_of(tmp_path, 1).write_bytes(b"")
    files = RecordedFiles()
    with pytest.raises(FileExistsError):
        files.create(path_of(tmp_path, 1))


def test_journal_files_are_for_their_owner_only(tmp_path: Path) -> None:
    Machine(tmp_path, RecordedFiles())
    assert path_of(tmp_path, 1).stat().st_mode & 0o077 == 0


def test_the_log_of_a_run_has_all_kinds_of_calls(tmp_path: Path) -> None:
    """The stand-in must see what it is to prove something about."""
    machine = Machine(tmp_path, RecordedFiles(), seed=1)
    for _ in range(400):
        machine.step()
    kinds = {call.what for call in machine.files.log if isinstance(call, Call)}
    assert {"create", "append", "sync", "sync_folder", "remove", "note"} <= kinds
