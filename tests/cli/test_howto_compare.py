"""The pages about choosing and upgrading: their commands, to the letter.

`make test` plays the two runs of the page about upgrades. It only plans those of the page about choosing, which take
minutes; `make test-capacity` plays them.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
import typer

from mqlab.events.folder import run_folders
from mqlab.runner.conductor import RunPlan

from .command import here
from .test_howto import PAGES, first_block

PLAYED = "MQLAB_TEST_CAPACITY" in os.environ


def commands(page: str) -> list[list[str]]:
    text = (PAGES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.strip()]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[RunPlan]:
    """The plans of the commands that would play runs."""
    plans: list[RunPlan] = []

    def plan(order: RunPlan, *_: object, **__: object) -> None:
        plans.append(order)
        raise typer.Exit

    if not PLAYED:
        for command in ("compare", "capacity"):
            monkeypatch.setattr(f"mqlab.cli.experiments.{command}.run_study", plan)
    return plans


def test_choosing(
    planned: list[RunPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if PLAYED:
        request.getfixturevalue("spark")
    (tmp_path / "orders.yaml").write_text(first_block("choose.md", "yaml"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("MQLAB_MINUTES", "1")
    words = commands("choose.md")
    assert [command[0] for command in words] == ["systems", "doctor", "plan", "compare", "capacity", "capacity"]
    for command in words:
        result = here(*command)
        accepted = {"compare": (0, 5, 6), "capacity": (0, 4, 6)}.get(command[0], (0,)) if PLAYED else (0,)
        assert result.exit_code in accepted, f"{command}: {result.output}"
        if command[0] == "plan":
            assert "70% 200B" in result.stdout
    if not PLAYED:
        compared, *searched = planned
        assert [system.label for system in compared.systems] == ["embedded", "embedded:monitoring=high"]
        assert [point.scenario for point in compared.points] == ["usual", "peak"]
        assert [[point.scenario for point in order.points] for order in searched] == [["peak"], ["peak"]]


@pytest.mark.usefixtures("spark")
def test_upgrading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the figures compare depends on the machine; that every command has an answer does not."""
    (tmp_path / "orders.yaml").write_text(first_block("upgrade.md", "yaml"))
    monkeypatch.chdir(tmp_path)
    # The Spark session of the tests was started in another folder.
    monkeypatch.setenv("MQLAB_RUNS", str(tmp_path / "runs"))
    accepted = {"run": (0,), "compare": (0, 5), "gated": (0, 5, 6), "history": (0,)}
    seen = []
    for command in commands("upgrade.md"):
        folders = sorted(map(str, run_folders(tmp_path / "runs"))) if (tmp_path / "runs").is_dir() else []
        globs = {"runs/*-orders-quick": folders, "LAST": folders[-1:]}
        words = [path for word in command for path in globs.get(word, [word])]
        result = here(*words)
        kind = "gated" if "--fail-if" in words else words[0]
        assert result.exit_code in accepted[kind], f"{words}: {result.output}"
        seen.append((kind, result.stdout + result.stderr))
    assert [kind for kind, _ in seen] == ["run", "run", "compare", "gated", "compare", "history"]
    assert "not known" in seen[-2][1], "one earlier run is not enough"
