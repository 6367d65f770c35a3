"""Run folders on S3 (the server of moto, the connector of hadoop-aws) and on HDFS, by the command: real servers.

`make test-cluster`: it gets the server of S3 from PyPI, and jars of 760 MB from Maven.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

import pytest

from cli.command import mqlab
from cluster.spark_servers import HOME, server
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import check_measures
from mqlab.pipeline.schema import TABLES
from mqlab.systems.install.download import Jars, install, path_of
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import write

pytestmark = pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`")

# The version of Hadoop in the package pyspark.
_HADOOP: Final = "3.5.0"
_S3: Final = Jars((f"org.apache.hadoop:hadoop-aws:{_HADOOP}",))
_HDFS: Final = Jars((f"org.apache.hadoop:hadoop-client-minicluster:{_HADOOP}",))


@dataclass(frozen=True)
class Storage:
    """A file system: its URL, the settings of Hadoop, and the jars that it needs beside those of Spark."""

    url: str
    settings: Mapping[str, str]
    jars: str = ""

    def shell(self, *arguments: str) -> None:
        options = [f"-D{name}={value}" for name, value in self.settings.items()]
        command = ["java", "-cp", f"{HOME}/jars/*:{self.jars}", "org.apache.hadoop.fs.FsShell", *options, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr[-2000:]

    def options(self) -> list[str]:
        settings = {f"spark.hadoop.{name}": value for name, value in self.settings.items()}
        settings |= {"spark.driver.extraClassPath": self.jars} if self.jars else {}
        return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def s3(folder: Path) -> Iterator[Storage]:
    install(_S3, print)
    address = f"127.0.0.1:{free_port()}"
    host, _, port = address.partition(":")
    with server([sys.executable, "-m", "moto.server", "-H", host, "-p", port], folder / "s3", "(Running on)"):
        with urlopen(Request(f"http://{address}/lab", method="PUT")):
            pass
        settings = {
            "endpoint": f"http://{address}", "endpoint.region": "us-east-1", "path.style.access": "true",
            "access.key": "mine", "secret.key": "secret",
        }  # fmt: skip
        yield Storage("s3a://lab", {f"fs.s3a.{name}": text for name, text in settings.items()}, f"{path_of(_S3)}/*")


@contextmanager
def hdfs(folder: Path) -> Iterator[Storage]:
    install(_HDFS, print)
    port = str(free_port())
    manager = ["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-nnport", port]
    command = ["java", "-cp", f"{path_of(_HDFS)}/*", *manager]
    with server(command, folder / "hdfs", "(Started MiniDFSCluster)"):
        yield Storage(f"hdfs://localhost:{port}", {"dfs.replication": "1"})


@pytest.mark.parametrize("storage", [s3, hdfs])
def test_a_run_folder_is_measured_where_it_is(
    storage: Callable[[Path], AbstractContextManager[Storage]], tmp_path: Path
) -> None:
    folder = write(tmp_path / "run", random_runs()[:6])
    mqlab("measure", folder.path, "--check")
    expected = {name: (folder.measures / name / "part.parquet").read_bytes() for name in TABLES}
    shutil.rmtree(folder.measures)
    with storage(tmp_path) as there:
        there.shell("-put", str(folder.path), f"{there.url}/run")
        measured = mqlab("measure", f"{there.url}/run", "--check", *there.options())
        assert "columns and SQL count the same events" in measured.stderr, measured.stderr
        assert f"measures in {there.url}/run/measures" in measured.stderr
        there.shell("-get", f"{there.url}/run/measures", str(folder.measures))
    check_measures(RunFolder.open(folder.path))
    assert {name: (folder.measures / name / "part.parquet").read_bytes() for name in TABLES} == expected
