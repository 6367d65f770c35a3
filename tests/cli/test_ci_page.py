"""docs/ci.md: its recipe works as it stands there, with less time."""

import re
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
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
