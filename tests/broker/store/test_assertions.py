"""The assertions around the disk: what may never happen ends the journal, or makes the store unreadable."""

from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.broker.core.durability.records import Put, Remove
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.manifest import Manifest, ManifestFile, open_manifest_file
from mqlab.broker.store.segments import segment_numbers
from mqlab.wire.native.bodies import encode

from .disk import RecordedFiles
from .machine import Machine


def test_a_record_number_that_does_not_follow_ends_the_journal(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles())
    machine.finish()
    durable = machine.durable
    assert not machine.journal.append(Remove(1, ()), machine.lsn + 2, "waiter")
    machine.finish()
    assert [str(error) for error in machine.failures] == [
        f"record {machine.lsn + 2} does not follow record {machine.lsn}"
    ]
    assert machine.durable == durable


def test_a_removal_of_what_is_not_there_ends_the_journal_and_keeps_its_files(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RecordedFiles())
    machine.core.emit(Put(((1, 1),), encode([b"body"])), True)
    for _ in range(2):
        machine.core.emit(Remove(1, ((1, 1),)), True)
    machine.finish()
    (failure,) = machine.failures
    assert isinstance(failure, AssertionError)
    assert segment_numbers(tmp_path) == [1]


@pytest.mark.parametrize("changes", [{"first": 2}, {"last": 4}, {"lsn": 6}, {"store": "another"}], ids=str)
def test_a_manifest_never_goes_back(tmp_path: Path, changes: dict[str, object]) -> None:
    file = ManifestFile(tmp_path, Files(), Manifest(first=3, last=5, lsn=7))
    before = file.content
    with pytest.raises(AssertionError, match="goes back"):
        file.update(**changes)
    file.close()
    assert Manifest.read(tmp_path, Files()) == before


def test_slots_of_a_manifest_that_contradict_each_other_are_unreadable(tmp_path: Path) -> None:
    files = Files()
    before = Manifest(first=3, last=5, lsn=7)
    descriptor = open_manifest_file(tmp_path, files)
    before.write(descriptor, files)
    assert Manifest.read(tmp_path, files) == before
    replace(before, lsn=6).write(descriptor, files)
    files.close(descriptor)
    assert Manifest.read(tmp_path, files) is None
