"""The lines that `mqlab measure --follow` prints."""

import pytest

from cli.command import here
from mqlab.cli.measure import _say_ended, _say_progress
from mqlab.pipeline.follow import EndedRun
from mqlab.pipeline.running_run import RunProgress
from report.synthetic_runs import SyntheticRuns

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
    _say_progress(RunProgress(4, 0, 10, None, 0, None, None))
    assert capsys.readouterr().err == "run 4 goes on: received 10\n"


def test_spark_connect_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = SyntheticRuns().write(tmp_path_factory.mktemp("runs") / "run")
    result = here("measure", folder.path, "--follow", "--master", "sc://nowhere")
    assert (result.exit_code, "Spark Connect" in result.stderr) == (2, True)
