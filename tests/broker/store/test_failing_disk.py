"""A sync or a write that fails ends it: nothing is confirmed afterwards, nothing is tried again, nothing is lost."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.group_commit import SyncSchedule
from mqlab.broker.store.recovery.recovery import recover

from .disk import RecordedFiles
from .journal_state import StatesByRecord, differences, state_of
from .machine import KEEP_IN_MEMORY, Machine

SCHEDULES = range(1000 if os.environ.get("MQLAB_TORTURE") else 150)


def broken(folder: Path, seed: int, files: RecordedFiles) -> Machine:
    machine = Machine(folder, files, seed=seed)
    for _ in range(400):
        machine.step()
        if machine.failures:
            break
    return machine


def go_on(machine: Machine, files: RecordedFiles) -> Iterator[tuple[int, int]]:
    """Whatever happens next, as far as the file layer sees it."""
    for _ in range(60):
        machine.step()
        yield files.syncs, files.appends


def test_after_a_failed_sync_nothing_is_confirmed_and_no_sync_is_tried_again(
    tmp_path: Path, record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broke = at_once = 0
    for seed in SCHEDULES:
        folder = tmp_path / str(seed)
        folder.mkdir()
        files = RecordedFiles()
        # The first sync is that of the first file's head: a broker that cannot do it does not start.
        files.fail_sync_at = 2 + seed % 9
        with monkeypatch.context() as fast:
            if seed % 2:
                # Or few would be done at once so early.
                fast.setattr(SyncSchedule, "is_quick", True)
            machine = broken(folder, seed, files)
        if not machine.failures:
            continue
        broke += 1
        at_once += machine.failed_at_once
        durable, begun, syncs = machine.durable, machine.syncs_begun, files.syncs
        assert syncs == files.fail_sync_at
        # `on_durable` of the machine raises if it is called after a failure. Syncs that others were about to do when
        # this one failed are not done either.
        assert {now for now, _ in go_on(machine, files)} == {syncs}
        assert (machine.durable, machine.syncs_begun) == (durable, begun)
        assert len(machine.failures) == 1
        assert isinstance(machine.failures[0], OSError)
        machine.journal.close()
        assert files.syncs == syncs
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert durable <= found.lsn
        assert not differences(state_of(found), StatesByRecord(machine.records).after(found.lsn))
    record_property("failed_syncs", broke)
    assert broke > len(SCHEDULES) * 0.9
    assert at_once > len(SCHEDULES) * 0.1


def test_after_a_failed_write_nothing_is_confirmed_and_no_write_is_tried_again(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Half of the last write is there."""
    broke = 0
    for seed in SCHEDULES:
        folder = tmp_path / str(seed)
        folder.mkdir()
        files = RecordedFiles()
        files.fail_append_at = 2 + seed % 15
        machine = broken(folder, seed, files)
        if not machine.failures:
            continue
        broke += 1
        durable, appends = machine.durable, files.appends
        assert appends == files.fail_append_at
        assert {now for _, now in go_on(machine, files)} == {appends}
        assert machine.durable == durable
        assert len(machine.failures) == 1
        machine.journal.close()
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert durable <= found.lsn
        assert not differences(state_of(found), StatesByRecord(machine.records).after(found.lsn))
    record_property("failed_writes", broke)
    assert broke > len(SCHEDULES) * 0.9


def test_a_file_that_cannot_be_made_is_a_failure_like_any_other(tmp_path: Path) -> None:
    """Unlike one for which there is no room."""
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        files = RecordedFiles()
        files.fail_create_at = 2 + seed % 4
        machine = broken(folder, seed, files)
        assert len(machine.failures) == 1
        durable = machine.durable
        assert {now for _, now in go_on(machine, files)} == {files.appends}
        machine.journal.close()
        found = recover(folder, Files(), KEEP_IN_MEMORY)
        assert durable <= found.lsn
        assert not differences(state_of(found), StatesByRecord(machine.records).after(found.lsn))


def test_a_journal_that_cannot_even_begin_says_so(tmp_path: Path) -> None:
    files = RecordedFiles()
    files.fail_sync_at = 1
    with pytest.raises(OSError, match="Input/output"):
        Machine(tmp_path, files)
