"""`mqlab history`: what the measures of run folders become, from the folders to a table, a trend and a file."""

import csv
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cli.command import document, here
from mqlab.json_values import JsonObject
from mqlab.pipeline.history.dataset import history_of, record_history
from report.synthetic_runs import META, SyntheticRuns

FIRST = datetime(2026, 1, 1, 12, tzinfo=UTC)
# The rate falls by 10 % with the ninth run folder, on one machine only.
SLOWER = 8
FOLDERS = 12


def folder(runs: Path, day: int, rate: float, machine: str) -> None:
    started = FIRST + timedelta(days=day)
    described = {**META["machine"], "id": machine}
    systems = [{"name": "embedded", "version": f"0.{day}", "settings": {}, "stamps": []}]
    made = SyntheticRuns(
        meta={**META, "started": started.isoformat(), "mqlab": f"1.{day}", "machine": described, "systems": systems}
    )
    made.measure("A", "rate.received", rate, 10.0)
    made.measure("A", "latency.p99", 0.004, observations=3)
    # A disturbed measure, far from the others: it is no part of a trend.
    made.measure("B", "rate.received", rate * (1 if day != 3 else 9), quiet=day != 3)
    for repetition, share in enumerate((0.99, 1.01), start=1):
        made.run("A", repetition, rate=rate * share)
    record_history(made.write(runs / f"{started:%Y%m%d}-{machine}"))


@pytest.fixture(scope="module")
def runs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    del spark  # it is started
    path = tmp_path_factory.mktemp("runs")
    for day in range(FOLDERS):
        noise = 1 + 0.004 * (day * 7 % 5 - 2)
        folder(path, day, 1000 * noise * (0.9 if day >= SLOWER else 1.0), "aaaa")
        folder(path, day, 2000 * noise, "bbbb")
    return path


def trends(runs: Path, *options: str) -> list[JsonObject]:
    result = here("history", "trend", "--runs", runs, "--json", *options)
    assert result.exit_code == 0, result.stderr
    found: list[JsonObject] = document(result.stdout)["trends"]
    return found


def test_spark_reads_the_history_as_one_dataset(runs: Path, spark: SparkSession) -> None:
    measures = spark.read.parquet(str(history_of(runs)))
    assert measures.count() == FOLDERS * 2 * 3
    row = measures.where("scenario = 'A' AND metric = 'rate.received'").orderBy("started", "machine").first()
    assert row is not None
    assert (row.study, row.scale, row.system, row.system_version, row.mqlab, row.machine, row.cores) == (
        "jms-four-brokers", "quick", "embedded", "0.0", "1.0", "aaaa", 2,
    )  # fmt: skip
    assert row["values"] == pytest.approx([row.value * 0.99, row.value * 1.01])


def test_filters(runs: Path) -> None:
    options = ("--metric", "rate.*", "--machine", "bbbb", "--since", "2026-01-11", "--scenario", "A", "--study", "jms*")
    result = here("history", "list", "--runs", runs, "--json", *options)
    rows = document(result.stdout)["measures"]
    assert [row["started"] for row in rows] == ["2026-01-11T12:00:00+00:00", "2026-01-12T12:00:00+00:00"]
    assert {(row["metric"], row["machine"], row["scenario"]) for row in rows} == {("rate.received", "bbbb", "A")}
    none = here("history", "list", "--runs", runs, "--json", "--system", "rate_received", "--point", "%")
    assert document(none.stdout) == {"measures": []}
    table = here("history", "list", "--runs", runs, *options)
    assert "2026-01-11T12:00" in table.stdout


def test_the_change_is_found_on_its_machine_alone(runs: Path) -> None:
    found = trends(runs, "--scenario", "A", "--changed")
    assert [(one["machine"], one["metric"]) for one in found] == [("aaaa", "rate.received")]
    (change,) = found[0]["changes"]
    assert (change["started"], change["mqlab"], change["is"]) == ("2026-01-09T12:00:00+00:00", "1.8", "worse")
    assert change["after"] / change["before"] == pytest.approx(0.9, abs=0.01)
    table = here("history", "trend", "--runs", runs, "--changed", "--scenario", "A").stdout
    assert "2026-01-09 12:00" in table
    assert "(worse)" in table


def test_disturbed_and_thin_measures_are_no_part_of_a_trend(runs: Path) -> None:
    found = trends(runs, "--machine", "bbbb")
    lengths = {(one["scenario"], one["metric"]): len(one["values"]) for one in found}
    assert lengths == {("A", "rate.received"): FOLDERS, ("B", "rate.received"): FOLDERS - 1}
    assert not any(one["changes"] for one in found)


@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_export(runs: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"measures{suffix}"
    result = here("history", "export", file, "--runs", runs, "--scenario", "A", "--metric", "rate.received")
    assert result.exit_code == 0, result.stderr
    if suffix == ".csv":
        with file.open() as lines:
            rows: list[JsonObject] = [{**row, "value": float(row["value"])} for row in csv.DictReader(lines)]
        assert rows[0]["started"] == "2026-01-01T12:00:00Z"
        assert [*map(float, rows[0]["values"].split())] == pytest.approx(
            [rows[0]["value"] * 0.99, rows[0]["value"] * 1.01]
        )
    else:
        rows = json.loads(file.read_text())["measures"] if suffix == ".json" else pq.read_table(file).to_pylist()
    assert len(rows) == FOLDERS * 2
    assert sorted({row["machine"] for row in rows}) == ["aaaa", "bbbb"]


def test_a_folder_measured_again_replaces_its_rows(tmp_path: Path) -> None:
    folder(tmp_path, 0, 1.0, "aaaa")
    shutil.rmtree(tmp_path / "20260101-aaaa")
    folder(tmp_path, 0, 2.0, "aaaa")
    (file,) = history_of(tmp_path).iterdir()
    assert [row["value"] for row in pq.read_table(file).to_pylist() if row["metric"] == "rate.received"] == [2.0, 2.0]


def test_it_is_rebuilt_and_keeps_folders_that_are_gone(tmp_path: Path) -> None:
    for day in range(2):
        folder(tmp_path, day, 1.0, "aaaa")
    shutil.rmtree(tmp_path / "20260101-aaaa")
    kept, written = sorted(history_of(tmp_path).iterdir())
    before = written.read_bytes()
    written.unlink()
    (tmp_path / "20260103-not-measured").mkdir()
    (tmp_path / "20260103-not-measured" / "meta.json").write_text((tmp_path / "20260102-aaaa/meta.json").read_text())
    result = here("history", "rebuild", "--runs", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert sorted(history_of(tmp_path).iterdir()) == [kept, written]
    assert written.read_bytes() == before
    assert "left out: " in result.stderr
    assert "not measured yet" in result.stderr


def test_run_folders_behind_a_url_are_measured_again_instead_of_a_rebuild() -> None:
    result = here("history", "rebuild", "--runs", "s3a://lab/runs/")
    assert result.exit_code == 2
    assert result.stderr.endswith("measure each again: mqlab measure s3a://lab/runs/RUN\n")


@pytest.mark.parametrize("command", [("list",), ("trend",), ("export", "all.csv"), ("rebuild",)], ids=" ".join)
def test_without_a_history(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = here("history", *command, "--runs", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"mqlab: {tmp_path}")


def test_a_damaged_history_is_one_sentence(tmp_path: Path, spark: SparkSession) -> None:
    del spark
    folder(tmp_path, 0, 1.0, "aaaa")
    (file,) = history_of(tmp_path).iterdir()
    file.write_bytes(b"no Parquet")
    result = here("history", "list", "--runs", tmp_path)
    assert result.exit_code == 1
    assert "mqlab history rebuild" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unknown_format_is_refused(runs: Path) -> None:
    result = here("history", "export", "all.xlsx", "--runs", runs)
    assert result.exit_code == 2
    assert ".csv, .json, .parquet" in result.stderr
