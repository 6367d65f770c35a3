"""docs/ci.md: its recipe works as it stands there, with less time."""

import os
import re
import shlex
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from .command import here

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"
# By what JUnit says: all passed, something failed, or something is not known.
EXIT_CODES = {"passed": {0}, "failure": {4, 5}, "error": {6}}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder in which the command of the page ran, and what it gave."""
    folder = tmp_path_factory.mktemp("ci")
    (folder / "orders.yaml").write_text(blocks("yaml")[0])
    (command,) = blocks("sh")
    program, *words = shlex.split(command.replace("\\\n", " "))
    assert program == "mqlab"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MQLAB_MINUTES", "0.1")
        patch.setenv("GITHUB_STEP_SUMMARY", str(folder / "step.md"))
        return folder, here(*words)


def checked_result(file: Path) -> str:
    """The worst result of the tests in a JUnit file. No audit may fail."""
    (suite,) = ElementTree.parse(file).getroot()
    audits = [case for case in suite if "delivery audit" in (case.get("name") or "")]
    assert audits
    assert all(not [*case] for case in audits)
    results = {child.tag for case in suite for child in case}
    return next((word for word in ("failure", "error") if word in results), "passed")


def test_the_comparison(recipe: tuple[Path, Result]) -> None:
    """How the gates decide depends on the machine; the exit code, the page and JUnit say the same."""
    folder, compared = recipe
    assert compared.exit_code in EXIT_CODES[checked_result(folder / "junit.xml")], compared.output
    assert max(len(line) for line in compared.stdout.splitlines() if line.startswith("  ")) <= 80
    for condition in ("rate.received < -10%", "latency.p99 > +25%", "rate.received > 100/s"):
        assert condition in compared.stdout
    page = (folder / "comparison.md").read_text()
    assert page.startswith("# embedded:monitoring=high against embedded:monitoring=low\n")
    assert page in (folder / "step.md").read_text()
    assert "rate.received,messages/s," in (folder / "comparison.csv").read_text()
    (path,) = folder.glob("runs/*/report/compare.html")
    assert f"comparison: {path.relative_to(folder)}" in compared.stderr.replace("\n", "")


def test_the_systems_took_turns(recipe: tuple[Path, Result]) -> None:
    _, compared = recipe
    assert "Each round, in which the two took turns, gives one ratio." in compared.stdout


def command_of(script: str) -> list[str]:
    """The words of the lab's command in a shell script."""
    (command,) = re.findall(r"^mqlab .*(?:\n .*)*", script.replace("\\\n", ""), re.MULTILINE)
    return shlex.split(command.partition("||")[0])


def test_the_job_runs_the_recipe_and_keeps_every_file() -> None:
    _, workflow = blocks("yaml")
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    *prepare, compare, upload = job["steps"]
    used = [step.get("uses", step.get("run")).partition("@")[0] for step in prepare]
    assert used == ["actions/checkout", "actions/setup-python", "actions/setup-java", "pip install mqlab"]
    (recipe,) = blocks("sh")
    words = command_of(compare["run"])
    assert words == command_of(recipe)
    kept = upload["with"]["path"].split()
    written = [words[number + 1] for number, word in enumerate(words) if word in ("--junit", "--markdown", "--csv")]
    assert (upload["if"], kept) == ("always()", [*written, "runs/*/report"])


@pytest.mark.parametrize(("code", "ended"), [(0, 0), (3, 3), (4, 4), (5, 5), (6, 0), (7, 7)])
def test_the_job_warns_where_the_runs_leave_a_gate_open(tmp_path: Path, code: int, ended: int) -> None:
    (job,) = yaml.safe_load(blocks("yaml")[1])["jobs"].values()
    (script,) = (step["run"] for step in job["steps"] if step.get("name") == "compare")
    (tmp_path / "mqlab").write_text(f"#!/bin/sh\nexit {code}\n")
    (tmp_path / "mqlab").chmod(0o755)
    # The way in which GitHub runs a script.
    path = f"{tmp_path}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-e", "-c", script], env={"PATH": path}, capture_output=True, text=True, check=False
    )
    assert result.returncode == ended
    assert result.stdout.startswith("::warning::") == (code == 6)
