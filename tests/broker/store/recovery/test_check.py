"""A store examined offline: whole, torn and damaged, and nothing of it is changed."""

from pathlib import Path

import pytest

from broker.store.disk import RecordedFiles
from broker.store.journals import Written, workload, written
from broker.store.machine import Machine
from mqlab.broker.core.durability.records import Decide, Declare, Prepare, Put, Record, Remove
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.check import check_store
from mqlab.broker.store.recovery.recovery import DamagedJournalError, recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import encode


def store(folder: Path, *, files: int = 3, shut: bool = True) -> list[Written]:
    made, lsn = [], 1
    for number in range(1, files + 1):
        records = workload(1000, body=50, batch=3)
        journal = written(records, number=number, first_lsn=lsn, group=1, shut=shut and number == files)
        segment_path(folder, number).write_bytes(journal.data)
        made.append(journal)
        lsn += len(records)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def change(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def test_a_whole_store(tmp_path: Path) -> None:
    records: list[Record] = [
        Declare(7, "subscription", 1, {"topic": "a"}),
        Put(((1, 1), (7, 1)), encode([b"one", b"two"]), "topic:a"),
        Put(((1, 3),), encode([b"a longer one" * 100])),
        Remove(1, ((1, 1),)),
        Prepare("waits", (Put(((1, 4),), encode([b"x"])),), ()),
        Prepare("done", (Put(((1, 5),), encode([b"x"])),), ()),
        Decide("done", True),
    ]
    journal = written(records, number=4, first_lsn=100, shut=True)
    segment_path(tmp_path, 4).write_bytes(journal.data)
    found = check_store(tmp_path)
    assert found.verdict == "sound"
    assert found.stopped_in_order is True
    assert found.prepared == ["waits"]
    (file,) = found.files
    assert (file.number, file.bytes, file.records, file.first_lsn, file.last_lsn, file.state) == (
        4, len(journal.data), 8, 100, 107, "whole",
    )  # fmt: skip
    batch = len(encode([b"one", b"two"]).data)
    assert [(one.number, one.name, one.messages, one.bytes) for one in found.queues] == [
        (1, "orders", 3, batch // 2 + 1200 + 1), (2, "prices.eu", 0, 0), (7, "subscription", 2, batch),
    ]  # fmt: skip


def test_several_files_in_their_order(tmp_path: Path) -> None:
    made = store(tmp_path)
    found = check_store(tmp_path)
    assert found.verdict == "sound"
    assert [file.records for file in found.files] == [len(one.records) for one in made]
    assert [file.first_lsn for file in found.files[1:]] == [file.last_lsn + 1 for file in found.files[:-1]]
    assert sum(one.messages for one in found.queues) > 10


def test_a_store_that_was_killed_has_a_torn_tail(tmp_path: Path) -> None:
    made = store(tmp_path, shut=False)
    begin = made[-1].records[-1][0]
    path = segment_path(tmp_path, 3)
    left = made[-1].data[:-20]
    path.write_bytes(left + bytes(4000))
    found = check_store(tmp_path)
    assert found.verdict == "torn tail"
    assert found.stopped_in_order is False
    assert [file.state for file in found.files] == ["whole", "whole", "torn"]
    torn = len(left.rstrip(b"\0")) - begin
    assert (found.files[-1].at, found.files[-1].torn_bytes, found.files[-1].bytes) == (begin, torn, begin + torn)
    assert path.stat().st_size == len(left) + 4000


def test_damage_in_the_middle_is_reported_with_its_byte_and_the_readable_part(tmp_path: Path) -> None:
    made = store(tmp_path)
    begin, lsn, *_ = made[1].records[5]
    change(segment_path(tmp_path, 2), begin + 30, b"!")
    before = contents(tmp_path)
    found = check_store(tmp_path)
    assert found.verdict == "damaged"
    assert [file.state for file in found.files] == ["whole", "damaged", "whole"]
    damaged = found.files[1]
    assert (damaged.at, damaged.records, damaged.last_lsn) == (begin, 5, lsn - 1)
    assert "checksum" in damaged.why
    assert found.files[2].records == len(made[2].records)
    assert contents(tmp_path) == before


def test_a_damaged_file_header_and_a_missing_file(tmp_path: Path) -> None:
    store(tmp_path, files=4)
    change(segment_path(tmp_path, 1), 12, b"!")
    segment_path(tmp_path, 3).unlink()
    found = check_store(tmp_path)
    assert [(file.number, file.state) for file in found.files] == [
        (1, "damaged"), (2, "whole"), (3, "missing"), (4, "whole"),
    ]  # fmt: skip
    assert found.files[0].records == 0
    assert found.verdict == "damaged"


def test_a_file_that_cannot_be_opened_is_damage(tmp_path: Path) -> None:
    store(tmp_path)
    segment_path(tmp_path, 2).unlink()
    segment_path(tmp_path, 2).mkdir()
    found = check_store(tmp_path)
    assert [file.state for file in found.files] == ["whole", "damaged", "whole"]
    assert "directory" in found.files[1].why


def test_nothing_is_sound(tmp_path: Path) -> None:
    found = check_store(tmp_path)
    assert (found.verdict, found.files, found.stopped_in_order) == ("sound", [], None)
    with pytest.raises(NotADirectoryError):
        check_store(tmp_path / "no such")


def test_check_and_recovery_agree(tmp_path: Path) -> None:
    """For a real journal, cut and damaged at many places."""
    (tmp_path / "first").mkdir()
    machine = Machine(tmp_path / "first", RecordedFiles(), seed=4)
    for _ in range(250):
        machine.step()
    machine.leave()
    whole = contents(tmp_path / "first")
    journal = {name: data for name, data in whole.items() if name.startswith("journal")}
    newest = max(journal)
    changed = [(name, at, False) for name, data in journal.items() for at in range(0, len(data), 61)]
    cut = [(newest, at, True) for at in (*range(0, len(whole[newest]), 61), len(whole[newest]))]
    folder = tmp_path / "second"
    folder.mkdir()
    verdicts = set()
    for name, at, is_cut in changed + cut:
        for other, data in whole.items():
            (folder / other).write_bytes(data)
        if is_cut:
            (folder / name).write_bytes(whole[name][:at])
        else:
            change(folder / name, at, bytes([whole[name][at] ^ 4]))
        verdicts.add(_compare(folder))
    assert verdicts == {"sound", "torn tail", "damaged"}


def _compare(folder: Path) -> str:
    before = contents(folder)
    found = check_store(folder)
    assert contents(folder) == before
    if found.verdict == "damaged":
        with pytest.raises(DamagedJournalError):
            recover(folder, Files(), 0)
        return found.verdict
    recovered = recover(folder, Files(), 0)
    assert recovered.torn == sum(file.torn_bytes for file in found.files)
    messages = {number: sum(span.rows for span in queue.spans()) for number, queue in recovered.queues.items()}
    assert {one.number: one.messages for one in found.queues} == messages
    assert found.prepared == [*recovered.prepared]
    return found.verdict
