"""What cannot be written is one sentence and an exit code, never a traceback."""

import asyncio
import errno
import os
import subprocess
from pathlib import Path

import pytest
from tests.load.lab import conducted
from tests.load.points import point

from mqlab.events.folder import RunFolder
from mqlab.load.agent import Agent
from mqlab.load.conductor import Conductor

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
    said = f"mqlab: a file cannot be used: run-00001.parquet: {FULL}; what there is: {folder}"
    assert result.stderr.strip() == said


async def _full(_: object) -> dict[str, object]:
    raise OSError(errno.ENOSPC, FULL, "run-00001.parquet")


async def _answer() -> dict[str, object]:
    agent = Agent()
    agent._commands["finish"] = _full
    return await agent.obey({"do": "finish"})


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
