"""The same tables, bit for bit, on this machine, on a standalone cluster and through Spark Connect: all real servers.

The executors have a Python with numpy and pyarrow alone, so that this package must come with the job.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from cli.command import mqlab
from cluster.spark_servers import QUICK_JAVA, Cluster, connect_server, plain_python
from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import TABLES

# For tables of a few rows.
SMALL = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.sql.adaptive.enabled=false")
ON_LOOPBACK = (*SMALL, "spark.driver.host=127.0.0.1", "spark.executor.memory=500m")


def copied(local: RunFolder, path: Path) -> RunFolder:
    """The events, without the measures."""
    shutil.copytree(local.path, path, ignore=shutil.ignore_patterns("measures"))
    return RunFolder(path)


def drive(*arguments: object, python: Path) -> str:
    environment = {
        **os.environ, "PYTHONPATH": ":".join(filter(None, sys.path)), "PYSPARK_PYTHON": str(python),
        "JDK_JAVA_OPTIONS": QUICK_JAVA,
    }  # fmt: skip
    command = [sys.executable, "-m", "cluster.driver", *map(str, arguments)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return ended.stdout


def tables(folder: RunFolder) -> dict[str, bytes]:
    return {name: (folder.measures / name / "part.parquet").read_bytes() for name in TABLES}


def test_a_cluster_gives_the_same_tables_also_if_it_loses_all_executors(
    local: RunFolder, cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    folder = copied(local, tmp_path / "run")
    workers = [worker.pid for worker in cluster.workers]
    said = drive(cluster.master, folder.path, "--lose", *workers, "--conf", *ON_LOOPBACK, python=python)
    assert said == f"killed {len(workers)}\n"
    assert tables(folder) == tables(local)


def test_executors_that_lack_a_package_end_the_command(local: RunFolder, cluster: Cluster, tmp_path: Path) -> None:
    """Before it measures, with a sentence that names the package."""
    folder = copied(local, tmp_path / "run")
    python = plain_python(tmp_path / "python", without="numpy")
    settings = [word for setting in ON_LOOPBACK for word in ("--conf", setting)]
    measured = mqlab("measure", folder.path, "--master", cluster.master, *settings, PYSPARK_PYTHON=str(python))
    assert measured.returncode == 7, measured.stderr
    assert f"Spark cannot compute on {cluster.master}: every executor needs Python" in measured.stderr
    assert "No module named 'numpy'" in measured.stderr
    assert "Traceback" not in measured.stderr
    assert not folder.measures.exists()


def test_spark_connect_gives_the_same_tables(local: RunFolder, python: Path, tmp_path: Path) -> None:
    folder = copied(local, tmp_path / "run")
    with connect_server(tmp_path, python, *SMALL) as address:
        drive(address, folder.path, python=python)
    assert tables(folder) == tables(local)
