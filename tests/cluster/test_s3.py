"""A run folder on S3, measured by the command: the server of moto, the connector of hadoop-aws, both real.

`make test-cluster`: it gets the server from PyPI, and jars of 690 MB from Maven.
"""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

import pytest

from cluster.hadoop_folders import FileSystem, check_measures_there
from cluster.spark_servers import Cluster, server
from cluster.test_masters import ON_LOOPBACK
from mqlab.systems.install.download import Jars, install, path_of

pytestmark = pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`")

# The version of Hadoop in the package pyspark.
_CONNECTOR: Final = Jars(("org.apache.hadoop:hadoop-aws:3.5.0",))


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[FileSystem]:
    """A bucket of a server, and the settings of Hadoop that lead there."""
    install(_CONNECTOR, print)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with server(command, tmp_path / "s3", "(Running on)"):
        with urlopen(Request(f"http://127.0.0.1:{port}/lab", method="PUT")):
            pass
        settings = {
            "fs.s3a.endpoint": f"http://127.0.0.1:{port}", "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.access.key": "mine", "fs.s3a.secret.key": "secret",
        }  # fmt: skip
        yield FileSystem("s3a://lab", settings, path_of(_CONNECTOR))


def test_a_run_folder_is_measured_where_it_is(bucket: FileSystem, tmp_path: Path) -> None:
    check_measures_there(bucket, tmp_path)


def test_a_cluster_measures_it_where_it_is(bucket: FileSystem, cluster: Cluster, python: Path, tmp_path: Path) -> None:
    """By executors that have the connector, and a Python with numpy and pyarrow alone."""
    settings = [word for setting in ON_LOOPBACK for word in ("--conf", setting)]
    check_measures_there(bucket, tmp_path, "--master", cluster.master, *settings, python=python)
