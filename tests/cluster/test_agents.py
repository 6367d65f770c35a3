"""Load from a cluster: the agents are tasks of a barrier stage on a real standalone cluster.

Their Python has what the lab needs, but not the lab: it must come with the job.
"""

import os
import socket
import sysconfig
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from cli.command import PROGRAM, Background, mqlab
from cluster.spark_servers import Cluster, plain_python
from cluster.test_masters import ON_LOOPBACK, tables
from mqlab.events.folder import RunFolder, run_folders
from mqlab.events.live import read_live
from mqlab.pipeline.exhibit_inputs import load_exhibits
from mqlab.pipeline.measure import measure
from mqlab.pipeline.measure_tables import read_table
from process_helpers import commands_with
from runner.lab import check_delivery, rows

STUDY = """
study: mine
title: My own
defaults: {message: {size: 64B}, rate: 500/s}
scenarios:
  A: {topics: 1, producers: 2, consumers: 2}
  B: {queues: 2, producers: 2, consumers: 2, send: confirmed}
scales:
  quick: {phases: {warmup: 100ms, measure: 500ms, drain: 60s}, repeat: {until: none, least: 1, most: 1}}
"""
HOST = socket.gethostname()
CONF = [word for setting in ON_LOOPBACK for word in ("--conf", setting)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every package that is installed, but for those that are only linked, as this one in a clone."""
    return plain_python(tmp_path_factory.mktemp("python"), more=[Path(sysconfig.get_path("purelib"))])


def agents(cluster: Cluster) -> list[psutil.Process]:
    """The Python processes of tasks that an agent has prepared for itself: they do not preempt others."""
    below = [process for worker in cluster.workers for process in worker.children(recursive=True)]
    tasks = commands_with("pyspark.daemon", below)
    return [process for process in tasks if is_agent(process)]


def is_agent(process: psutil.Process) -> bool:
    try:
        return os.sched_getscheduler(process.pid) == os.SCHED_BATCH
    except ProcessLookupError:
        return False


def only_folder(runs: Path) -> RunFolder:
    (path,) = run_folders(runs)
    return RunFolder.open(path)


def test_the_load_and_the_measures_of_a_cluster(
    spark: SparkSession, cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(STUDY)
    ended = mqlab(
        "run", study, "--agents", cluster.master, "--agent-count", "2", "--master", cluster.master, *CONF,
        "--runs", tmp_path / "runs", PYSPARK_PYTHON=str(python),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    folder = only_folder(tmp_path / "runs")
    assert folder.meta()["hosts"] == [HOST, HOST]
    for run in rows(folder, "runs"):
        assert check_delivery(folder, run["run"], size=64) > 0
    assert [audit["status"] for audit in read_table(folder, "audits")] == ["clean", "clean"]
    on_cluster = tables(folder)
    measure(spark, folder, exhibits=load_exhibits(folder))
    assert tables(folder) == on_cluster
    assert agents(cluster) == []


def test_a_killed_agent_makes_its_run_incomplete_and_another_stage_plays_the_next(
    cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    study, runs = tmp_path / "study.yaml", tmp_path / "runs"
    study.write_text(STUDY.replace("consumers: 2}", "consumers: 2, phases: {measure: 1000s}}"))
    arguments: list[str | Path] = ["run", study, "--agents", cluster.master, *CONF, "--runs", runs]

    def is_loaded() -> bool:
        return any(line.get("phase") == "measure" for path in run_folders(runs) for line in read_live(path)[0])

    with Background(tmp_path, *PROGRAM, *arguments, PYSPARK_PYTHON=str(python)) as command:
        command.wait_until(is_loaded)
        killed, other = agents(cluster)
        command.record_descendants()
        killed.kill()
        code, _ = command.end()
        said = command.stderr
    assert code == 7, said
    folder = only_folder(runs)
    first, second = rows(folder, "runs")
    assert first["status"] == "incomplete"
    assert f"on {HOST} ended in mid-run" in first["reason"]
    assert first["reason"] in said
    assert rows(folder, "sends", run=1) or rows(folder, "receipts", run=1), "the other agent has written its events"
    assert second["status"] == "complete", second["reason"]
    assert not other.is_running()
    assert agents(cluster) == []
