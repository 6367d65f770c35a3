"""Runs with a budget of time: what it is spent on, and how a system compares with itself."""

from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject

from .command import SMALL, document, here

# One claim that the first runs decide, and one about two figures that are the same.
CLAIMS = """
claims:
  - {id: decided, says: A is fast, source: here, check: "rate.received[A] > 100"}
  - {id: open, says: B gets what it asks for, source: here, check: "rate.received[B] > 1.0001 * rate.sent[B]"}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    """A system against itself, for some seconds."""
    folder = tmp_path_factory.mktemp("decisive")
    study = folder / "mine.yaml"
    study.write_text(SMALL + CLAIMS)
    ended = here("run", study, "--minutes", "0.15", "--aa", "--json", "--runs", folder / "runs")
    assert ended.exit_code == 0, ended.stderr
    return document(ended.stdout)


def runs_of(found: JsonObject, system: str, scenario: str) -> int:
    return sum((audit["system"], audit["scenario"]) == (system, scenario) for audit in found["audits"])


def test_every_point_has_runs_and_the_budget_is_recorded(found: JsonObject) -> None:
    for system in ("embedded", "embedded again"):
        assert runs_of(found, system, "A") >= 1
        assert runs_of(found, system, "B") >= 1
    meta = RunFolder.open(Path(found["run"])).meta()
    assert meta["minutes"] == pytest.approx(0.15, abs=0.01)
    assert meta["looks"] == 6
    assert meta["again"].endswith("mine.yaml --scale quick")


def test_a_system_is_compared_with_itself(found: JsonObject) -> None:
    differences = found["false_differences"]
    assert 0 <= differences["differing"] <= differences["compared"] <= 2
    pairs = {(row["first"], row["second"]) for row in found["comparisons"] if row["metric"] == "rate.work"}
    assert pairs == {("embedded", "embedded again"), ("embedded again", "embedded")}
