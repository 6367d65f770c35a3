"""Run folders for the tests of report/, written from made-up measures."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report import write_report

from .html_report import ReadPage
from .synthetic_runs import SyntheticRuns, cut_down, whole_study

Write = Callable[[SyntheticRuns], RunFolder]


@pytest.fixture
def made() -> SyntheticRuns:
    return whole_study()


@pytest.fixture
def small(tmp_path: Path) -> SyntheticRuns:
    """Two scenarios, for the tests that write a whole report."""
    return cut_down(tmp_path / "small", "AH")


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of the whole study with its report; no test changes it."""
    folder = whole_study().write(tmp_path_factory.mktemp("runs") / "whole")
    write_report(folder)
    return folder


@pytest.fixture(scope="session")
def whole_page(whole_run: RunFolder) -> ReadPage:
    return ReadPage.of(whole_run.report / "index.html")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    numbers = count()
    return lambda made: made.write(tmp_path / f"run-{next(numbers)}")
