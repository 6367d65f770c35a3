"""The start of Spark beside the start of the agents, for commands that run and then measure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from mqlab.cli.terminal.pipeline_time import PipelineTime
from mqlab.pipeline.session import SparkTarget
from mqlab.pipeline.session_start import SessionStart
from mqlab.runner.plan import RunPlan


@contextmanager
def session_started(order: RunPlan, target: SparkTarget, pipeline_time: PipelineTime) -> Iterator[RunPlan]:
    """A plan whose runs wait for the session, which starts while the agents do.

    Later it would take processor time from what is measured. A session on a cluster would keep its cores for itself
    while the load runs, so that it starts afterwards.
    """
    if not target.is_local:
        yield order
        return
    start = SessionStart(target)

    async def wait() -> None:
        with pipeline_time.running():
            await start.wait()

    try:
        yield replace(order, before_runs=wait)
    finally:
        start.abandon()  # the load has ended before it began
