"""The rules of the repository that no other tool checks: who may import whom, what a folder says of itself, sizes."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> list[Path]:
    """Files of the repository; all files there are where it is not a clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / one for one in listed.stdout.split("\0") if one and (ROOT / one).is_file()]
    return [path for folder in ("src", "tests", "docs", "bench", "examples") for path in (ROOT / folder).rglob("*.*")]


def test_imports_follow_the_arrows() -> None:
    """The contracts stand in pyproject.toml."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"[1-9]\d* kept, 0 broken", ended.stdout)


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_package_says_what_lives_there(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text())
    said = ast.get_docstring(tree) or ""
    assert len(said) > 60, f"{name(package)}/__init__.py says too little of what lives there and what does not"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name)
def test_a_file_has_one_idea(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    if path.name != "__main__.py":
        assert ast.get_docstring(ast.parse(path.read_text())), f"{name(path)} has no docstring"


def test_nothing_names_a_home_folder() -> None:
    """It would work on one machine only, and say whose it was."""
    home = re.compile(rb"(?<![\w.])/(?:home|Users|root|work)/[\w.-]+")
    found = [
        f"{name(path)}: {match.group().decode()}"
        for path in tracked()
        for match in home.finditer(path.read_bytes())
        if path != Path(__file__)
    ]
    assert found == []
