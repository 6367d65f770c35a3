"""An interrupted run folder goes on: complete runs are kept, all others are played, and another plan is refused."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder, RunFolderBusyError
from mqlab.events.schema import COMPLETE
from mqlab.json_values import JsonObject
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.resume import KeptRun, NotResumableError, check_resumable, keep_runs
from mqlab.study import Point, load_study
from mqlab.systems import system
from runner.lab import check_delivery, conducted, rows
from runner.points import MEASURE, point
from runner.test_repetition import STEADY, FakeSystem, Played, played

__all__ = ["played"]

# Only the second point has the phase in which the test interrupts it.
POINTS = [point("A", least=2, most=2, rate=500, batch=1), point("B", preload=5, selector="seq >= 0", rate=500, batch=1)]


def files(folder: RunFolder, run: int) -> set[str]:
    return {str(file.relative_to(folder.events)) for file in folder.events.glob(f"*/run-{run:05d}[-.]*")}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that no test changes."""
    parent = tmp_path_factory.mktemp("original")
    with pytest.raises(asyncio.CancelledError):
        conducted(parent, POINTS, interrupt_in="preload")
    (path,) = parent.iterdir()
    return path


@pytest.fixture
def interrupted(original: Path, tmp_path: Path) -> RunFolder:
    return RunFolder.open(shutil.copytree(original, tmp_path / original.name))


def test_it_goes_on_where_it_was_interrupted(interrupted: RunFolder) -> None:
    assert [run["status"] for run in rows(interrupted, "runs")] == ["complete", "complete", "incomplete"]
    before = {run: files(interrupted, run) for run in (1, 2)}
    # A lab that was killed leaves this.
    (interrupted.events / "sends" / ".run-00003.unfinished").write_bytes(b"half")
    (interrupted.path / ".systems-x").mkdir()
    kept = keep_runs(interrupted, POINTS)
    assert [(run.number, run.point.label, run.repetition, run.system) for run in kept] == [
        (1, "A", 1, "embedded"), (2, "A", 2, "embedded"),
    ]  # fmt: skip
    counted = [run["counted_received"] for run in rows(interrupted, "runs")]
    assert [run.outcome.counted_received for run in kept] == counted
    assert [run.outcome.seconds for run in kept] == [pytest.approx(MEASURE)] * 2
    assert files(interrupted, 3) == set()
    assert not [*interrupted.path.glob(".systems-*"), *interrupted.events.glob("*/.*")]
    conducted(interrupted.path.parent, POINTS, resumed=interrupted, kept=kept)
    runs = rows(interrupted, "runs")
    assert [(run["run"], run["scenario"], run["repetition"], run["status"]) for run in runs] == [
        (1, "A", 1, "complete"), (2, "A", 2, "complete"), (3, "B", 1, "complete"),
    ]  # fmt: skip
    assert {run: files(interrupted, run) for run in (1, 2)} == before
    for number in (1, 2, 3):
        assert check_delivery(interrupted, number, 12) > 0
    meta = interrupted.meta()
    assert (meta["status"], len(meta["resumed"]), meta["id"]) == ("complete", 1, interrupted.path.name)


def damage(folder: RunFolder, run: int) -> None:
    (file,) = folder.events.glob(f"sends/run-{run:05d}*")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def remove(folder: RunFolder, run: int) -> None:
    (file,) = folder.events.glob(f"runs/run-{run:05d}*")
    file.unlink()


@pytest.mark.parametrize("spoil", [damage, remove])
def test_a_damaged_run_and_those_that_follow_it_are_dropped(
    interrupted: RunFolder, spoil: Callable[[RunFolder, int], None]
) -> None:
    spoil(interrupted, 1)
    assert keep_runs(interrupted, POINTS) == []
    assert not [*interrupted.events.glob("*/*.parquet")]


def test_runs_of_points_that_the_study_does_not_have_are_dropped(interrupted: RunFolder) -> None:
    assert keep_runs(interrupted, POINTS[1:]) == []


def kept_run(number: int, of: Point, repetition: int, rate: float = 1000.0, disturbed: str = "") -> KeptRun:
    counted = round(rate * MEASURE)
    outcome = RunOutcome(COMPLETE, counted_received=counted, seconds=MEASURE, disturbed=disturbed)
    return KeptRun(number, number, of, "one", repetition, outcome, 0.4)


def test_the_runs_before_count(played: Played, tmp_path: Path) -> None:
    """For the repetition rule, for the peak that other points take a share of, and for the numbers of the runs."""
    peak = point("A", least=2, most=3, until="spread(rate) < 1%")
    share = peak.model_copy(update={"name": "rate=50%", "peak_share": 0.5})
    folder = RunFolder.create(tmp_path, "before")
    before: JsonObject = {"systems": [{"name": "one"}], "extended": []}
    folder.write_meta(before)
    played.rates = {"one": iter(STEADY)}
    kept = [kept_run(1, peak, 1), kept_run(2, peak, 2, rate=1001.0), kept_run(4, share, 1)]
    conducted(
        tmp_path, [peak, share], systems=[FakeSystem("one")], agents=1, watch_noise=True, resumed=folder, kept=kept
    )
    assert played.order == [("A", "one", 2)]
    assert played.paces == {"one": [pytest.approx(500.0, rel=0.01)]}


def test_a_repeated_run_counts_once(played: Played, tmp_path: Path) -> None:
    base = point("A", least=3, most=3)
    folder = RunFolder.create(tmp_path, "before")
    folder.write_meta({"systems": [{"name": "one"}], "extended": []})
    played.rates = {"one": iter(STEADY)}
    kept = [kept_run(1, base, 1, disturbed="cc1"), kept_run(2, base, 1), kept_run(3, base, 2)]
    conducted(tmp_path, [base], systems=[FakeSystem("one")], agents=1, watch_noise=True, resumed=folder, kept=kept)
    assert played.order == [("A", "one", 3)]


@pytest.fixture
def recorded(original: Path) -> JsonObject:
    return RunFolder.open(original).meta()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"status": "complete"}, "is complete: there is nothing to resume"),
        ({"machine": {"cpu": "another"}}, "began with another cpu: another, now "),
        ({"mqlab": "0.0.1"}, "began with another mqlab: 0.0.1, now "),
        ({"systems": [{"name": "embedded", "version": "0", "settings": {}}]}, "has run embedded 0 with its settings"),
        ({"systems": [{"name": "nats", "version": "0", "settings": {}}]}, "has run no such system, not embedded"),
    ],
)
def test_another_plan_is_refused(tmp_path: Path, recorded: JsonObject, change: JsonObject, reason: str) -> None:
    folder, study = RunFolder.create(tmp_path, "x"), load_study("jms-four-brokers")
    study.copy(folder.study)
    merged = {**recorded, **change, "machine": {**recorded["machine"], **change.get("machine", {})}}
    folder.write_meta(merged)
    if not reason:
        check_resumable(folder, study, [system("embedded")])
        return
    with pytest.raises(NotResumableError) as refused:
        check_resumable(folder, study, [system("embedded")])
    assert reason in str(refused.value)


def test_a_compacted_folder_is_complete(tmp_path: Path, recorded: JsonObject) -> None:
    """Even if meta.json was not durable when the machine lost its power."""
    folder, study = RunFolder.create(tmp_path, "x"), load_study("jms-four-brokers")
    folder.write_meta(recorded)
    (folder.events / "runs").mkdir()
    (folder.events / "runs" / "runs-00001-00002.00000000.parquet").touch()
    with pytest.raises(NotResumableError, match="is complete: there is nothing to resume"):
        check_resumable(folder, study, [system("embedded")])


def test_a_study_that_has_changed_is_refused(tmp_path: Path, recorded: JsonObject) -> None:
    folder, study = RunFolder.create(tmp_path, "x"), load_study("jms-four-brokers")
    study.copy(folder.study)
    folder.write_meta(recorded)
    (folder.study / "study.yaml").write_text((folder.study / "study.yaml").read_text() + "# changed\n")
    with pytest.raises(NotResumableError, match="has changed since"):
        check_resumable(folder, study, [system("embedded")])


def test_two_processes_do_not_run_one_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "x")
    with folder.locked(), pytest.raises(RunFolderBusyError, match="another mqlab is running it"), folder.locked():
        pass
    with folder.locked():
        pass
