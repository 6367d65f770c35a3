"""A driver in a process of its own: measures a run folder on a Spark master, and may lose executors while it does.

python -m cluster.driver MASTER FOLDER [--lose PID...] [--conf KEY=VALUE...]: with `--lose`, all executors of these
workers are killed in mid-pipeline, when the counts of events are computed and persisted, and no table is.
"""

import argparse
from pathlib import Path

import psutil

from mqlab.events.folder import RunFolder
from mqlab.pipeline.counts import run_partitions
from mqlab.pipeline.measure import measure
from mqlab.pipeline.session import SparkTarget, spark_session
from pipeline.cases import EXHIBITS
from process_helpers import commands_with


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lose", nargs="*", type=int, default=[])
    parser.add_argument("--conf", nargs="*", default=[])
    arguments = parser.parse_args()
    # A task for each run, so that all executors have some.
    run_partitions.ROWS = 1  # type: ignore[misc]  # Final
    spark = spark_session(SparkTarget.parse(arguments.master, arguments.conf))
    killed: list[int] = []

    def lose_executors(step: str, *_: int) -> None:
        if step == "audits":
            for worker in map(psutil.Process, arguments.lose):
                for executor in commands_with("CoarseGrainedExecutorBackend", worker.children()):
                    executor.kill()
                    killed.append(executor.pid)

    measure(spark, RunFolder(arguments.folder), lose_executors, exhibits=EXHIBITS)
    print(f"killed {len(killed)}")
    spark.stop()


if __name__ == "__main__":
    main()
