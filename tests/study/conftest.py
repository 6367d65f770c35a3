from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import Study

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts a study file (and others, by name) into a folder of its own, and returns its path."""

    def put(text: str, **others: str) -> Path:
        for name, content in others.items():
            (tmp_path / name.replace("_", ".")).write_text(content, encoding="utf-8")
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return put


def published_measures(study: Study) -> dict[tuple[str, str, str], float]:
    """Return (system, scenario, metric) -> value for the published values of one system that a metric measures.

    If a study published several values for these three (a sweep), none of them is returned.
    """
    numbers: dict[tuple[str, str, str], set[float]] = {}
    for value in study.published:
        number = value.in_lab_units().value
        if value.measure is None or number is None or value.over:
            continue
        if value.system in study.systems_published and value.scenario in study.scenarios:
            numbers.setdefault((value.system, value.scenario, value.measure), set()).add(number)
    return {key: values.pop() for key, values in numbers.items() if len(values) == 1}
