"""The lines that `mqlab measure --follow` prints."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.command import PROGRAM, Background, here
from mqlab.cli.measure import _say_ended, _say_progress
from mqlab.events.folder import RunFolder
from mqlab.pipeline.following.follower import EndedRun
from mqlab.pipeline.following.running_audit import AuditSoFar
from mqlab.pipeline.following.running_run import RunProgress
from mqlab.pipeline.measure_tables import read_table
from report.synthetic_runs import SyntheticRuns

STUDY = """
study: mine
title: My own
scenarios:
  A: {topics: 1, producers: 2, consumers: 2, message: {size: 64B}, rate: 400/s}
scales:
  quick: {phases: {warmup: 200ms, measure: 2s, drain: 60s}, repeat: {until: none, least: 2, most: 2}}
"""
AUDIT = {"run": 3, "scenario": "A", "point": "size=1KiB", "system": "embedded", "status": "failed", "reason": "1 lost"}


def test_a_run_that_has_ended(capsys: pytest.CaptureFixture[str]) -> None:
    _say_ended(EndedRun(AUDIT, {"rate.received": 12345.0, "latency.p99": 0.004, "cpu.broker": 3.0}))
    assert capsys.readouterr().err.replace("\u00a0", " ") == (
        "run 3: A size=1KiB embedded: failed (1 lost); rate.received 12,345 messages/s, latency.p99 4 ms\n"
    )
    _say_ended(EndedRun({**AUDIT, "status": "incomplete", "reason": "interrupted"}, {}))
    assert "incomplete (interrupted); nothing measured" in capsys.readouterr().err


def test_a_run_that_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    _say_progress(RunProgress(4, 1000, 990, 500.0, 980, 0.0005, 0.004))
    line = capsys.readouterr().err.replace("\u00a0", " ")
    assert line == "run 4 goes on: sent 1,000, received 990, 500/s, p50 500 µs and p99 4 ms of 980 messages\n"
    _say_progress(RunProgress(4, 1000, 990, 500.0, 0, None, None, 7, AuditSoFar(12, 2, 3)))
    assert capsys.readouterr().err == (
        "run 4 goes on: sent 1,000, received 990, 12 not received yet, 2 received again, 3 out of order, 500/s, "
        "latencies of 7 messages are not known\n"
    )
    _say_progress(RunProgress(4, 0, 10, None, 0, None, None))
    assert capsys.readouterr().err == "run 4 goes on: received 10\n"


def test_spark_connect_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = SyntheticRuns().write(tmp_path_factory.mktemp("runs") / "run")
    result = here("measure", folder.path, "--follow", "--master", "sc://nowhere")
    assert (result.exit_code, "Spark Connect" in result.stderr) == (2, True)


def test_a_real_run_that_is_followed(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What following printed of each run is what `mqlab run` measured at its end, in a process of its own."""
    study, runs = tmp_path / "study.yaml", tmp_path / "runs"
    study.write_text(STUDY)
    with Background(tmp_path, *PROGRAM, "run", study, "--runs", runs) as command:
        command.wait_until(lambda: [*runs.glob("*/meta.json")])
        (meta,) = runs.glob("*/meta.json")
        followed = here("measure", meta.parent, "--follow")
        code, _ = command.end()
        said = command.stderr + followed.stderr
        assert followed.exit_code == 0, said
        assert code == 0, said
    folder = RunFolder.open(meta.parent)
    values = read_table(folder, "run_measures")
    capsys.readouterr()
    for audit in sorted(read_table(folder, "audits"), key=lambda row: int(row["run"])):
        assert audit["sent"] > 0
        _say_ended(EndedRun(audit, {row["metric"]: row["value"] for row in values if row["run"] == audit["run"]}))
    measured = capsys.readouterr().err.splitlines()
    assert len(measured) == 2
    told = [line for line in followed.stderr.splitlines() if line.startswith("run ") and "goes on" not in line]
    assert told == measured
    del spark
