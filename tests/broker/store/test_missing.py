"""Journal files that are gone, emptied, overwritten or another store's: recovery has everything, or refuses."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import NAME
from mqlab.broker.store.recovery.check import check_store
from mqlab.broker.store.recovery.decoding import decode_file_header, read_record_header
from mqlab.broker.store.recovery.recovery import DamagedJournalError, recover
from mqlab.broker.store.segments import segment_numbers, segment_path

from .disk import RecordedFiles
from .journal_state import StatesByRecord, differences, state_of
from .machine import Machine, small_settings
from .test_full_disk import Sender

Harm = Callable[[Path, Path], object]


def _truncated(path: Path, _: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: decode_file_header(data).size])


def _truncated_after_a_record(path: Path, _: Path) -> None:
    """What is left is whole, and has all that the manifest knows to be confirmed."""
    data = path.read_bytes()
    begin = decode_file_header(data).size
    path.write_bytes(data[: read_record_header(data, begin).end])


def _noise(path: Path, _: Path) -> None:
    data, chance = path.read_bytes(), random.Random(1)
    at = decode_file_header(data).size + 20
    path.write_bytes(data[:at] + chance.randbytes(len(data) - at))


def _duplicated(path: Path, _: Path) -> None:
    following = segment_path(path.parent, int(path.name.removeprefix("journal-")) + 1)
    following.write_bytes(path.read_bytes())


HARMS: dict[str, Harm] = {
    "deleted": lambda path, _: path.unlink(),
    "emptied": lambda path, _: path.write_bytes(b""),
    "truncated to its header": _truncated,
    "truncated after a record": _truncated_after_a_record,
    "zeroed": lambda path, _: path.write_bytes(bytes(path.stat().st_size)),
    "noise": _noise,
    "of another store": lambda path, other: path.write_bytes((other / path.name).read_bytes()),
    "duplicated": _duplicated,
}


class Reserved(RecordedFiles):
    """Files have their length from the start, as on a real disk."""

    reserve = Files.reserve
    give_back = Files.give_back
    trim = Files.trim


def store(folder: Path, *, clean: bool, size: int = 90) -> Machine:
    """Three files or more, with confirmed messages in each."""
    folder.mkdir()
    machine = Machine(folder, Reserved(), settings=small_settings(folder, log_length=1 << 30))
    sender = Sender(machine, size)
    for _ in range(14):
        assert sender.send()
        machine.finish()
    if clean:
        machine.journal.close()
    machine.leave()
    assert len(segment_numbers(folder)) == 3
    assert machine.durable == machine.lsn
    return machine


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("harm", HARMS)
def test_everything_confirmed_is_there_or_recovery_refuses(tmp_path: Path, harm: str, clean: bool) -> None:
    machine = store(tmp_path / "whole", clean=clean)
    store(tmp_path / "other", clean=clean, size=91)
    for number in (1, 2, 3):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        HARMS[harm](segment_path(folder, number), tmp_path / "other")
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        verdict = check_store(folder).verdict
        if verdict == "damaged":
            with pytest.raises(DamagedJournalError, match="journal-"):
                recover(folder, Files(), 0)
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
            continue
        found = recover(folder, Files(), 0)
        if harm == "noise" and number == 3 and not clean:
            # Nothing tells it from a torn tail: the end of a broker that was killed. What is known of it is there.
            assert found.torn
            assert verdict == "torn tail"
            assert found.manifest is not None
            assert found.lsn >= found.manifest.lsn
            continue
        assert not differences(state_of(found), StatesByRecord(machine.records).after(machine.lsn))


def test_a_store_without_a_manifest_opens_and_is_checked_from_then_on(tmp_path: Path) -> None:
    """As stores from before the manifest: no file header names its store."""
    from .journals import workload, written

    folder = tmp_path / "data"
    folder.mkdir()
    segment_path(folder, 1).write_bytes(written(workload(3000)).data)
    machine = Machine(folder, RecordedFiles())
    machine.finish()
    machine.leave()
    assert (folder / NAME).exists()
    segment_path(folder, 1).unlink()
    with pytest.raises(DamagedJournalError, match=r"missing: journal-0000000001\."):
        recover(folder, Files(), 0)


@pytest.mark.parametrize("harm", ["deleted", "emptied", "zeroed"])
def test_without_its_manifest_a_store_is_refused(tmp_path: Path, harm: str) -> None:
    store(tmp_path / "data", clean=True)
    HARMS[harm](tmp_path / "data" / NAME, tmp_path)
    with pytest.raises(DamagedJournalError, match="'manifest' beside it"):
        recover(tmp_path / "data", Files(), 0)
    assert check_store(tmp_path / "data").verdict == "damaged"
