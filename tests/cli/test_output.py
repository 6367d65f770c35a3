"""What cannot be written is one sentence and an exit code, never a traceback."""

import asyncio
import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from pyspark.errors import PySparkException
from typer.testing import Result

from mqlab.cli.terminal.exit_status import exit_with_status
from mqlab.events.folder import RunFolder
from mqlab.events.sources import EventSources
from mqlab.pipeline.measure_tables import write_table
from mqlab.pipeline.schema import TABLES
from mqlab.runner.agents.process import Agent
from mqlab.runner.conductor import Conductor
from mqlab.study import load_study
from runner.lab import conducted
from runner.points import point
from table_rows import Row

from .command import PROGRAM, SMALL, environment, here

FULL = "No space left on device"


@pytest.mark.parametrize("arguments", [("studies",), ("plan", "jms-four-brokers", "--json"), ("--help",)])
def test_a_stdout_that_is_full(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False
        )
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"mqlab: the output cannot be written: {FULL}"


def test_a_reader_that_has_read_enough_is_no_news() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    ended = subprocess.run(
        [*PROGRAM, "studies"], stdout=theirs, stderr=subprocess.PIPE, text=True, env=environment(), check=False
    )
    os.close(theirs)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_disk_that_gets_full_during_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill(_: Conductor) -> None:
        raise OSError(errno.ENOSPC, FULL, "run-00001.parquet")

    monkeypatch.setattr(Conductor, "conduct", fill)
    (tmp_path / "my.yaml").write_text(SMALL)
    result = here("run", tmp_path / "my.yaml", "--runs", tmp_path / "runs")
    assert result.exit_code == 1
    (folder,) = (tmp_path / "runs").iterdir()
    said = f"mqlab: a file cannot be used: run-00001.parquet: {FULL}; the incomplete run folder is {folder}"
    assert result.stderr.strip() == said


async def _full(_: object) -> dict[str, object]:
    raise OSError(errno.ENOSPC, FULL, "run-00001.parquet")


async def _answer() -> dict[str, object]:
    agent = Agent()
    agent._commands["finish"] = _full
    return await agent.execute({"command": "finish"})


def test_an_agent_says_that_its_disk_is_full() -> None:
    assert asyncio.run(_answer()) == {"error": f"run-00001.parquet: {FULL}"}


def test_a_full_disk_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last thing that is written fails as well: what was started must still be ended."""

    def full(_: RunFolder, __: object) -> None:
        raise OSError(errno.ENOSPC, FULL, "meta.json")

    def watch(_: object) -> None:
        monkeypatch.setattr(RunFolder, "write_meta", full)

    with pytest.raises(OSError, match="No space"):
        conducted(tmp_path, [point("A", measure=0.1)], watch=watch)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "my.yaml").write_text(SMALL)
    created = RunFolder.create(tmp_path, "run")
    created.write_meta({"study": "mine", "scale": "quick", "systems": []})
    load_study(tmp_path / "my.yaml").copy(created.study)
    return created


class TestMeasure:
    def measured(
        self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, outcome: EventSources | Exception, *options: str
    ) -> Result:
        def pipeline(*_: object, **__: object) -> EventSources:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr("mqlab.cli.measure.spark_session", lambda _: None)
        monkeypatch.setattr("mqlab.cli.measure.run_pipeline", pipeline)
        monkeypatch.setattr("mqlab.cli.measure.record_history", lambda _: None)
        return here("measure", folder.path, *options)

    @pytest.mark.parametrize(
        ("different", "code", "sentence"),
        [
            ([], 0, "columns and SQL count the same events"),
            (["gaps", "activity"], 1, "mqlab: columns and SQL count different events: gaps, activity"),
        ],
    )
    def test_the_counts_can_be_checked(
        self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, different: list[str], code: int, sentence: str
    ) -> None:
        write_measures(folder, ("clean",), "", measured=True)
        monkeypatch.setattr("mqlab.cli.measure.differing_counts", lambda *_: different)
        result = self.measured(folder, monkeypatch, EventSources({}), "--check")
        assert result.exit_code == code
        assert sentence in result.stderr.splitlines()

    def test_a_full_disk(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        result = self.measured(folder, monkeypatch, OSError(errno.ENOSPC, FULL))
        assert result.exit_code == 1
        assert said_last(result) == (
            f"mqlab: {folder.measures} cannot be written: {FULL}. The events are kept: mqlab measure {folder.path}"
        )

    def test_what_java_says_is_one_line(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        error = PySparkException("it is broken\n\tat java.base\n" * 200)
        result = self.measured(folder, monkeypatch, error)
        assert result.exit_code == 1
        assert said_last(result) == (
            f"mqlab: Spark cannot measure the events: it is broken. The events are kept: mqlab measure {folder.path}"
        )
        assert len(result.stderr.splitlines()) == 2

    def test_a_damaged_file_and_its_run_are_named(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        reason = "damaged: events/sends/x.parquet does not match its checksum"
        write_measures(folder, ("clean", "void"), reason, measured=True)
        result = self.measured(folder, monkeypatch, EventSources({}, {2: reason}))
        assert result.exit_code == 3
        assert f"run 2 is void: {reason}" in result.stderr.splitlines()
        assert said_last(result) == f"mqlab: a run is void (run 2: {reason}); see the report"

    def test_the_reason_reaches_the_terminal_as_text(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        write_measures(folder, ("incomplete", "clean"), "it said \x1b[2J", measured=True)
        result = self.measured(folder, monkeypatch, EventSources({}))
        assert said_last(result) == "mqlab: a run is incomplete (run 1: it said \ufffd[2J); see the report"

    @pytest.mark.parametrize(("statuses", "measured", "study_status", "code"), [
        (("clean",), True, "complete", 0),
        (("void",), True, "complete", 3),
        (("clean", "failed"), True, "incomplete", 3),
        ((), False, "complete", 8),
        (("incomplete",), False, "incomplete", 8),
        (("clean",), True, "incomplete", 7),
        (("incomplete", "clean"), True, "complete", 7),
    ])  # fmt: skip
    def test_the_exit_code_is_that_of_the_worst_run(
        self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, statuses: tuple[str, ...], measured: bool,
        study_status: str, code: int,
    ) -> None:  # fmt: skip
        folder.write_meta({**folder.meta(), "status": study_status})
        write_measures(folder, statuses, "why", measured=measured)
        assert self.measured(folder, monkeypatch, EventSources({})).exit_code == code
        # `run` and `report` end with the same call.
        if code:
            with pytest.raises(typer.Exit) as ended:
                exit_with_status([folder])
            assert ended.value.exit_code == code
        else:
            exit_with_status([folder])


def write_measures(folder: RunFolder, statuses: Sequence[str], reason: str, *, measured: bool) -> None:
    audits: list[Row] = [
        {"run": run, "scenario": "A", "point": "", "system": "x", "repetition": run, "status": status,
         "reason": "" if status == "clean" else reason}
        for run, status in enumerate(statuses, 1)
    ]  # fmt: skip
    measures: list[Row] = [{"study": "mine", "scenario": "A", "metric": "rate.sent", "value": 1.0}]
    for table, rows in {"audits": audits, "measures": measures if measured else []}.items():
        write_table(folder, table, pa.Table.from_pylist(rows, schema=TABLES[table].schema))


def test_a_report_on_a_full_disk(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: RunFolder) -> None:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr("mqlab.cli.report.write_report", full)
    result = here("report", folder.path)
    assert result.exit_code == 1
    assert said_last(result) == (
        f"mqlab: {folder.report} cannot be written: {FULL}. The measures are kept: mqlab report {folder.path}"
    )


def said_last(result: Result) -> str:
    return result.stderr.splitlines()[-1]
