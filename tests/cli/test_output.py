"""What cannot be written is one sentence and an exit code, never a traceback."""

import asyncio
import errno
import os
import subprocess
from pathlib import Path

import pytest
import typer
from pyspark.errors import PySparkException
from typer.testing import Result

from mqlab.cli.report import exit_with_status
from mqlab.events.checksums import EventFile
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import EventSources
from mqlab.runner.agents.process import Agent
from mqlab.runner.conductor import Conductor
from mqlab.study import load_study
from runner.lab import conducted
from runner.points import point

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
    def measured(self, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, outcome: EventSources | Exception) -> Result:
        def pipeline(*_: object) -> EventSources:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr("mqlab.cli.measure.spark_session", lambda _: None)
        monkeypatch.setattr("mqlab.cli.measure.run_pipeline", pipeline)
        return here("measure", folder.path)

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
        old = EventFile(folder.events / "sends" / "run-00001.parquet", "")
        sources = EventSources({"sends": [old]}, {2: "damaged: events/sends/x.parquet does not match its checksum"})
        result = self.measured(folder, monkeypatch, sources)
        assert result.exit_code == 0
        assert result.stderr.splitlines()[1:3] == [
            "run 2 is void: damaged: events/sends/x.parquet does not match its checksum",
            "1 event files have no checksum and were not checked",
        ]


def test_a_report_on_a_full_disk(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: RunFolder) -> None:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr("mqlab.cli.report.write_report", full)
    result = here("report", folder.path)
    assert result.exit_code == 1
    assert said_last(result) == (
        f"mqlab: {folder.report} cannot be written: {FULL}. The measures are kept: mqlab report {folder.path}"
    )


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"measures": [1], "audits": [{"status": "clean"}], "status": "complete"}, None),
        ({"measures": [1], "audits": [{"status": "void"}], "status": "complete"}, 3),
        ({"measures": [1], "audits": [{"status": "failed"}], "status": "incomplete"}, 3),
        ({"measures": [], "audits": [], "status": "complete"}, 8),
        ({"measures": [], "audits": [{"status": "incomplete"}], "status": "incomplete"}, 8),
        ({"measures": [1], "audits": [{"status": "clean"}], "status": "incomplete"}, 7),
        ({"measures": [1], "audits": [{"status": "incomplete"}], "status": "complete"}, 7),
    ],
)
def test_the_exit_code_of_a_report(document: JsonObject, code: int | None) -> None:
    try:
        exit_with_status([document])
        found = None
    except typer.Exit as end:
        found = end.exit_code
    assert found == code


def said_last(result: Result) -> str:
    return result.stderr.splitlines()[-1]
