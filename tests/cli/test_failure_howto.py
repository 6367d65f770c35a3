"""docs/howto/survive-a-failure.md, followed to the letter."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from mqlab.events.folder import RunFolder, run_folders
from mqlab.pipeline.measure_tables import read_table

from .command import here

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "survive-a-failure.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    return [dedent(block) for block in found]


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The Spark session of the tests was started in another folder.
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    (study,) = blocks("yaml")
    Path("our-failover.yaml").write_text(study)
    planned, of_lab, our_own = (here(*shlex.split(block)[1:]) for block in blocks("sh"))
    for ended in (planned, of_lab, our_own):
        assert ended.exit_code == 0, ended.output
    assert {"kill", "cut", "lossy"} <= {line.split()[0] for line in planned.stdout.splitlines() if line.strip()}
    said = " ".join((of_lab.stdout + our_own.stdout).split())
    times = r"[\d.]+ (?:s|ms) without service, recovered after [\d.]+ (?:s|ms); [\d,]+ confirmed, 0 lost"
    for fault in ("kill, embedded: kill at 500ms for 500ms", "dies, embedded: kill at 500ms for 200ms"):
        assert re.search(rf"{fault}: {times}, [\d,]+ sent again, [\d,]+ marked, 0 out of order, 0 duplicated", said), (
            said
        )
    assert len(re.findall(r"hangs, embedded: stop at 300ms for 100ms every 400ms: ", said)) == 4
    assert "Verdicts on the study's claims, measured here: " in said
    for folder in map(RunFolder.open, run_folders(Path("runs"))):
        assert {audit["status"] for audit in read_table(folder, "audits")} == {"clean"}
        report = (folder.report / "index.html").read_text(encoding="utf-8")
        assert "Faults" in report
        assert "Sent again" in report
