"""The driver of the barrier stage, in a process of its own: beside it, the pipeline may use another Spark.

It reads one line of JSON on stdin (`StageOrder`) and runs until the stage has ended, or until stdin is closed: then the
conductor is gone. Further lines say when all agents are connected and when they have stopped. If the stage fails, the
last line on stdout is the reason.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from functools import partial
from threading import Event, Thread
from typing import Final

from mqlab.cluster.task import ConductorAddress, play_agent
from mqlab.pipeline.session import SPARK_ERRORS, SparkTarget, SparkUnavailableError, spark_session

# Words of the conductor after its order.
CONNECTED: Final = "connected"
STOPPED: Final = "stopped"
# For the agents that are left when the stage fails: as long as Spark lets their tasks live.
_SURVIVORS_SECONDS: Final = 30


@dataclass(frozen=True)
class StageOrder:
    """Which stage to run: on which master, with how many tasks, and where they connect to."""

    master: str
    settings: dict[str, str]
    count: int
    conductor: ConductorAddress

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "StageOrder":
        data = json.loads(text)
        return cls(**{**data, "conductor": ConductorAddress(**data["conductor"])})


def stage_settings(count: int) -> dict[str, str]:
    """Settings of Spark for a stage of agents; those of the user come before them."""
    return {
        # One agent for each executor, so that they are spread over the machines; the rest of the cluster stays free.
        "spark.cores.max": str(count),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.ui.enabled": "false",
        # The conductor decides what happens after a lost agent; the others have this time to write their events.
        "spark.task.maxFailures": "1",
        "spark.stage.maxConsecutiveAttempts": "1",
        "spark.python.task.killTimeout": f"{_SURVIVORS_SECONDS}s",
        # How long Spark waits for enough executors.
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "60",
    }


def run_stage(order: StageOrder, heard: dict[str, Event]) -> str:
    """Run the stage to its end. Returns why it failed, or "". `heard`: is set when the conductor says so."""
    target = SparkTarget(order.master, stage_settings(order.count) | order.settings)
    try:
        spark = spark_session(target)
    except SparkUnavailableError as error:
        return str(error)
    try:
        context = spark.sparkContext
        tasks = context.parallelize(range(order.count), order.count)
        tasks.barrier().mapPartitions(partial(play_agent, conductor=order.conductor)).count()
    except SPARK_ERRORS as error:
        if heard[CONNECTED].is_set():
            # The end of Spark would end the other agents before they have written their events.
            heard[STOPPED].wait(_SURVIVORS_SECONDS)
        return failure_reason(str(error), order.count)
    finally:
        spark.stop()
    return ""


def failure_reason(text: str, count: int) -> str:
    """The line that names the error."""
    if "SPARK-24819" in text:
        return f"there are fewer than {count} free cores, and every agent needs one"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = (line for line in lines if "Error: " in line or "ExecutorLostFailure" in line)
    return next(named, lines[0] if lines else "the stage failed")


def _listen(heard: dict[str, Event]) -> None:
    """Hear the conductor, and end with it."""
    for line in sys.stdin:
        heard[line.strip()].set()
    os._exit(1)


def main() -> None:
    order = StageOrder.from_json(sys.stdin.readline())
    heard = {CONNECTED: Event(), STOPPED: Event()}
    Thread(target=_listen, args=[heard], daemon=True).start()
    reason = run_stage(order, heard)
    print(reason, flush=True)
    os._exit(1 if reason else 0)


if __name__ == "__main__":
    main()
