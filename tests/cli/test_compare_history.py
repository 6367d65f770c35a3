"""`mqlab compare RUN --history`: a finished run against the earlier ones of the same machine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.command import document, here
from mqlab.json_values import JsonObject
from mqlab.pipeline.history.dataset import record_history
from report.comparison.test_command import Runs
from report.synthetic_runs import META

FIRST = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = (1000.0, 1010.0, 990.0, 1005.0, 995.0)


def played(made: Runs, day: int, rate: float, machine: str = "aaaa") -> Path:
    described = {**META["machine"], "id": machine}
    folder = made.one(rate, started=(FIRST + timedelta(days=day)).isoformat(), machine=described)
    record_history(folder)
    return folder.path


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Runs:
    del spark  # it is started
    runs = Runs(tmp_path)
    for day, rate in enumerate(EARLIER):
        played(runs, day, rate)
    return runs


def figures(run: Path, *options: str, code: int) -> JsonObject:
    result = here("compare", run, "--history", "--json", *options)
    assert result.exit_code == code, result.stderr
    return {row["metric"]: row for row in document(result.stdout)["rows"]}


def test_a_run_within_the_spread_of_the_others_is_the_same(made: Runs) -> None:
    rate = figures(played(made, 20, 1003.0), code=0)["rate.work"]
    assert rate["outcome"] == "same"
    assert rate["ratio"]["value"] == pytest.approx(1.003)


def test_a_slower_run_is_worse_and_fails_the_gate(made: Runs) -> None:
    slower = played(made, 30, 800.0)
    assert figures(slower, code=5)["rate.work"]["outcome"] == "worse"
    assert "regression" in here("compare", slower, "--history", "--fail-if", "rate.work < -10%").stderr
    assert here("compare", slower, "--history", "--fail-if", "rate.work < -50%").exit_code == 0


def test_only_earlier_runs_count_and_three_are_needed(made: Runs) -> None:
    second = played(made, 1, 500.0)
    found = figures(second, code=0)["rate.work"]
    assert (found["outcome"], found["reason"]) == (
        "not known", "the history has 1 earlier runs of it that count; 3 are needed",
    )  # fmt: skip
    result = here("compare", played(made, -5, 1000.0), "--history")
    assert (result.exit_code, "no earlier run" in result.stderr) == (8, True)


def test_other_machines_are_refused_unless_told(made: Runs) -> None:
    other = played(made, 25, 1000.0, "bbbb")
    result = here("compare", other, "--history")
    assert (result.exit_code, "other machines" in result.stderr) == (2, True)
    assert figures(other, "--other-machine", code=0)["rate.work"]["base"] is not None


def test_what_it_does_not_take(made: Runs, tmp_path: Path) -> None:
    run = played(made, 26, 1000.0)
    assert "name only its run folder" in here("compare", run, run, "--history").stderr
    assert "name one of them" in here("compare", run, "--history", "--system", "nobody").stderr.replace("\n", " ")
    assert "no such run folder" in here("compare", tmp_path / "nowhere", "--history").stderr.replace("\n", " ")
