"""The share of the pipeline in the time of a command."""

from pathlib import Path

import pytest

from mqlab.cli import run
from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.events.folder import RunFolder
from mqlab.pipeline.session import SparkTarget
from mqlab.runner.conductor import RunPlan
from mqlab.study import load_study


def test_passes_are_summed_also_one_that_fails() -> None:
    now = iter([100.0, 110.0, 112.0, 130.0, 131.0, 140.0])
    time = PipelineTime(lambda: next(now))
    with time.running():
        pass
    with pytest.raises(OSError, match="full"), time.running():
        raise OSError("full")
    assert time.sentence() == "the pipeline took 3 of 40 s (8 %)"


def test_the_budgets_together_are_the_time_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first takes half of its budget, the second much more than it gets, and the third has half at least.

    The pipeline takes none of it.
    """
    now, given, over = [0.0], [], {2: 20.0, 3: 1000.0, 4: 0.0}

    def run_study(order: RunPlan, *_: object, seconds: float, **__: object) -> RunFolder:
        given.append(seconds)
        now[0] += seconds / 2 if len(given) == 1 else seconds + over[len(given)]
        with clocks[0].running():
            now[0] += 1000
        return RunFolder.create(tmp_path, order.study.id)

    clocks = [PipelineTime(lambda: now[0])]
    monkeypatch.setattr(run, "PipelineTime", lambda: clocks[0])
    monkeypatch.setattr(run, "run_study", run_study)
    monkeypatch.setattr(run, "write_index", lambda _: tmp_path)
    studies = [
        load_study(name) for name in ("sunmq-wmq-2003", "jms-four-brokers", "ibmmq-943-trace", "sonicmq-mqseries")
    ]
    budgets = [study.budget("quick") or 0.0 for study in studies]
    run._run_all([RunPlan(study, "quick", (), ()) for study in studies], tmp_path, SparkTarget(), None, quiet=True)
    assert given == [budgets[0], budgets[1] + budgets[0] / 2, budgets[2] - 20, budgets[3] / 2]
