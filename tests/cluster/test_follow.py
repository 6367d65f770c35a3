"""Following on a standalone cluster: a worker vanishes, and the measures at the end are those of this machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from cluster.spark_servers import QUICK_JAVA, plain_python, standalone_cluster
from cluster.test_masters import ON_LOOPBACK
from mqlab.pipeline.measure import measure
from pipeline.synthetic_runs import write
from pipeline.test_follow import EARLY, LATE, contents, finish, one_run, record

pytestmark = pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`")
RUNS = [one_run(number) for number in range(1, 5)]


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()[-4000:]
        time.sleep(0.1)


def vanish(worker: psutil.Process) -> None:
    """A worker with its executors, at once, as a machine does that loses its power."""
    lost = [worker, *worker.children(recursive=True)]
    for process in lost:
        process.kill()
    psutil.wait_procs(lost)


def test_a_worker_that_vanishes_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path / "run", [])
    for table in (*EARLY, *LATE):
        (folder.events / table).mkdir(exist_ok=True)
    log = tmp_path / "follow.log"
    with standalone_cluster(tmp_path / "cluster") as cluster, log.open("wb") as output:
        command = [sys.executable, "-m", "mqlab", "measure", str(folder.path), "--follow", "--master", cluster.master]
        command += [word for setting in ON_LOOPBACK for word in ("--conf", setting)]
        environment = {
            **os.environ, "PYSPARK_PYTHON": str(plain_python(tmp_path / "python")), "JDK_JAVA_OPTIONS": QUICK_JAVA,
        }  # fmt: skip
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        for number, run in enumerate(RUNS):
            record(folder, run, (*EARLY, *LATE))
            if number == 1:
                vanish(cluster.workers[0])
            wait_for(f"run {run.number}: ", log, process)
        finish(folder)
        # Ten messages of run 2 are lost, which is the exit code of a failed audit.
        assert process.wait() == 3, log.read_text()[-4000:]
    followed = contents(folder)
    measure(spark, folder)
    assert contents(folder) == followed
