"""The figures of a run that has just ended: those of the pipeline, without Spark."""

from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.events.schema import COMPLETE
from mqlab.pipeline.ended_run import figures_of, runs_files
from mqlab.pipeline.kernels.histogram import percentile_s
from mqlab.pipeline.schema import FAULTS
from pipeline.cases import CASES
from pipeline.synthetic_runs import MEASURE, Run, write_by_run
from table_rows import Tables

MS = 1_000_000


def folder_of(path: Path, *runs: Run) -> RunFolder:
    folder = RunFolder(path)
    folder.events.mkdir(parents=True)
    write_by_run(folder, runs)
    return folder


def test_percentiles_and_faults_are_those_of_the_pipeline(
    chance_runs: list[Run], tables: Tables, tmp_path: Path
) -> None:
    every = [*CASES.values(), *chance_runs]
    folder = folder_of(tmp_path / "run", *every)
    assert sorted(runs_files(folder)) == sorted(run.number for run in every)
    audits = {row["run"]: row for row in tables["audits"]}
    values = {(row["run"], row["metric"]): row["value"] for row in tables["run_measures"]}
    compared = audited = 0
    for run in every:
        if run.status != COMPLETE:
            assert figures_of(folder, run.number) == []
            continue
        (found,) = figures_of(folder, run.number)
        assert (found.system, found.scenario, found.point) == (run.system, run.scenario, run.point)
        if audits[run.number]["lost"] is not None:
            assert found.faults == {name: audits[run.number][name] for name in FAULTS}, run
            audited += 1
        kind = "response" if (run.number, "response.p50") in values else "latency"
        for name, metric in (("p50", f"{kind}.p50"), ("p99", f"{kind}.p99"), ("p999", f"{kind}.p999")):
            if (run.number, metric) in values:
                assert found.percentiles[name] == pytest.approx(values[run.number, metric]), run
                compared += 1
    assert compared > 20
    assert audited > 20


def test_a_large_run_has_percentiles_of_its_last_rows_and_no_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlab.events.folder.ROW_GROUP_ROWS", 10)
    run = Run(1)
    for seq in range(100):
        took = 9 if seq < 80 else 2
        run.send(seq, 1, MEASURE + seq * MS).receive(seq, 1, MEASURE + (seq + took) * MS)
    folder = folder_of(tmp_path / "run", run)
    (whole,) = figures_of(folder, 1)
    assert whole.faults == dict.fromkeys(FAULTS, 0)
    assert whole.percentiles["p50"] == pytest.approx(0.009, rel=0.002)
    (last,) = figures_of(folder, 1, most_rows=15)
    assert last.faults is None
    assert last.percentiles["p99"] == pytest.approx(0.002, rel=0.002)


def test_a_percentile_is_the_first_bucket_that_reaches_the_share() -> None:
    assert percentile_s({}, 500) is None
    messages = {0: 500, 100: 490, 3000: 10}
    found = [percentile_s(messages, share) for share in (500, 501, 990, 991)]
    assert found == [1e-9, 1.0019**100 / 1e9, 1.0019**100 / 1e9, 1.0019**3000 / 1e9]
    assert percentile_s({1: 10}, 500, longest_ns=0) == 0.0
