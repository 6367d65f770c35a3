"""A plugin of pytest that adds up the figures of a run: tests, generated examples, and what tests record of themselves.

A test says `record_property("points", 17)`; numbers of one name are added, of names with `percent` the highest counts.
The sums go to the file that MQLAB_FIGURES names, as JSON.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

_EXAMPLES = re.compile(r"(\d+) passing\b")
figures: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and report.passed:
        figures["tests"] += 1
        figures["examples"] += sum(map(int, _EXAMPLES.findall(getattr(item, "hypothesis_statistics", ""))))
    if call.when == "call":
        _add(report)
    return report


def _add(report: pytest.TestReport) -> None:
    """Also of a test that failed: how far it came."""
    for name, value in report.user_properties:
        if isinstance(value, int | float) and "percent" in name:
            figures[name] = max(figures[name], round(value))
        elif isinstance(value, int | float):
            figures[name] += round(value)


def pytest_sessionfinish() -> None:
    found = {name: value for name, value in figures.items() if value or name == "tests"}
    Path(os.environ["MQLAB_FIGURES"]).write_text(json.dumps(found))
