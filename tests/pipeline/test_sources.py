"""Damaged events void their runs and nothing else, and measures know which events they come from."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mqlab.events.folder import RunFolder
from mqlab.events.recorder import event_table
from mqlab.events.sources import examine_events
from mqlab.pipeline.measure import measure
from mqlab.pipeline.measure_tables import (
    NotMeasuredError,
    check_measures,
    read_table,
)
from mqlab.pipeline.schema import TABLES
from pipeline.cases import CASES
from pipeline.synthetic_runs import Run
from table_rows import Tables


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def file_of(folder: RunFolder, table: str, run: int) -> Path:
    (path,) = (path for path in folder.event_files(table) if path.name.startswith(f"run-{run:05d}"))
    return path


def written(path: Path, runs: list[Run]) -> RunFolder:
    """Files as the lab writes them: of each run its own."""
    folder = RunFolder(path)
    for part in (path, folder.events, folder.measures):
        part.mkdir(parents=True, exist_ok=True)
    folder.write_meta({"id": path.name, "study": "made-up", "machine": {"cores": 2}})
    for run in runs:
        for table, rows in run.tables().items():
            complete = event_table(table, ({"run": run.number, **row} for row in rows))
            folder.write_events(table, f"run-{run.number:05d}", complete)
    return folder


@pytest.fixture(scope="module")
def clean_runs(tables: Tables) -> list[Run]:
    clean = {audit["run"] for audit in tables["audits"] if audit["status"] == "clean"}
    return [run for run in CASES.values() if run.number in clean][:4]


@pytest.fixture(scope="module")
def damaged(spark: SparkSession, clean_runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Of four clean runs: the second lost a bit of its receipts, the third one of its own row."""
    folder = written(tmp_path_factory.mktemp("damaged") / "run", clean_runs)
    flip(file_of(folder, "receipts", clean_runs[1].number))
    flip(file_of(folder, "runs", clean_runs[2].number))
    measure(spark, folder, exhibits=())
    return folder


class TestDamage:
    def test_exactly_the_runs_of_the_damaged_files_are_void(self, damaged: RunFolder, clean_runs: list[Run]) -> None:
        found = {audit["run"]: (audit["status"], audit["reason"]) for audit in read_table(damaged, "audits")}
        first, second, third, fourth = (run.number for run in clean_runs)
        receipts, row = file_of(damaged, "receipts", second), file_of(damaged, "runs", third)
        assert found == {
            first: ("clean", ""),
            second: ("void", f"damaged: events/receipts/{receipts.name} does not match its checksum"),
            third: ("void", f"damaged: events/runs/{row.name} does not match its checksum"),
            fourth: ("clean", ""),
        }

    def test_the_others_keep_their_figures(self, damaged: RunFolder, clean_runs: list[Run], tables: Tables) -> None:
        sound = {clean_runs[0].number, clean_runs[3].number}
        found = read_table(damaged, "run_measures")
        assert {row["run"] for row in found} == sound
        assert found == [row for row in tables["run_measures"] if row["run"] in sound]

    def test_the_measures_of_damaged_events_are_those_of_the_events(self, damaged: RunFolder) -> None:
        check_measures(damaged)


class TestStaleMeasures:
    @pytest.fixture
    def folder(self, damaged: RunFolder, tmp_path: Path) -> RunFolder:
        return RunFolder(shutil.copytree(damaged.path, tmp_path / "copy"))

    def test_events_that_changed(self, folder: RunFolder, clean_runs: list[Run]) -> None:
        flip(file_of(folder, "sends", clean_runs[0].number))
        with pytest.raises(NotMeasuredError, match=r"sends/run-\S+ has changed since the events were measured"):
            check_measures(folder)

    def test_events_that_came_or_went(self, folder: RunFolder, clean_runs: list[Run]) -> None:
        file_of(folder, "sends", clean_runs[0].number).unlink()
        with pytest.raises(NotMeasuredError, match="was added or removed since the events were measured"):
            check_measures(folder)

    @pytest.mark.parametrize("table", TABLES)
    def test_measures_that_are_damaged(self, folder: RunFolder, table: str) -> None:
        flip(folder.measures / table / "part.parquet")
        with pytest.raises(NotMeasuredError, match=f"the table {table} of its measures is damaged"):
            check_measures(folder)

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"complete": true}', '{"complete": false}'])
    def test_a_record_of_the_sources_that_is_damaged(self, folder: RunFolder, text: str) -> None:
        (folder.measures / "sources.json").write_text(text)
        with pytest.raises(NotMeasuredError, match=r"its measures are (damaged|unfinished)"):
            check_measures(folder)

    def test_measures_of_unknown_events(self, folder: RunFolder) -> None:
        (folder.measures / "sources.json").unlink()
        with pytest.raises(NotMeasuredError, match=r"not measured yet \(it has no measures/sources\.json\)$"):
            check_measures(folder)


def test_a_run_without_its_own_row_is_void(tmp_path: Path, clean_runs: list[Run]) -> None:
    """A file that was removed, or a lab that was killed: the run must not vanish."""
    folder = written(tmp_path / "run", clean_runs[:2])
    run = clean_runs[1].number
    file_of(folder, "runs", run).unlink()
    assert examine_events(folder).damaged == {run: f"damaged: events/runs has no file of run {run}"}


def test_a_damaged_file_without_a_run_voids_all_runs(tmp_path: Path, clean_runs: list[Run]) -> None:
    folder = written(tmp_path / "run", clean_runs[:2])
    (folder.events / "sends" / "part-0.parquet").write_bytes(b"PAR1")
    found = examine_events(folder)
    assert [*found.damaged] == [None]
    assert found.readable("sends") == []
    assert len(found.readable("runs")) == 2
