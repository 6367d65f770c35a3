"""A run folder on HDFS, measured by the command: a NameNode and a DataNode of Hadoop, in one Java process.

`make test-cluster`: it gets jars of 110 MB from Maven.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.hadoop_folders import FileSystem, check_measures_there
from cluster.spark_servers import Cluster, server
from cluster.test_masters import ON_LOOPBACK
from mqlab.systems.install.download import Jars, install, path_of

pytestmark = pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`")

# The clusters are those of Hadoop's own tests, so they need JUnit.
MINI_CLUSTER: Final = (
    "org.apache.hadoop:hadoop-client-minicluster:3.5.0", "org.junit.jupiter:junit-jupiter-api:5.11.4",
    "org.slf4j:slf4j-simple:1.7.36",
)  # fmt: skip
_CLUSTER: Final = Jars(MINI_CLUSTER)
# The port is in the log.
_STARTED: Final = r"Started MiniDFSCluster -- namenode on port (\d+)"


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[FileSystem]:
    """A file system that needs no connector: pyspark has the client of HDFS."""
    install(_CLUSTER, print)
    folder = tmp_path / "hdfs"
    command = [
        "java", f"-Dtest.build.data={folder}", f"-Djava.io.tmpdir={folder}", "-cp", f"{path_of(_CLUSTER)}/*",
        "org.apache.hadoop.test.MiniDFSClusterManager", "-datanodes", "1", "-format",
    ]  # fmt: skip
    with server(command, folder, _STARTED) as (_, port):
        yield FileSystem(f"hdfs://127.0.0.1:{port}")


def test_a_run_folder_is_measured_where_it_is(hdfs: FileSystem, cluster: Cluster, python: Path, tmp_path: Path) -> None:
    """By the executors of a cluster, which have a Python with numpy and pyarrow alone."""
    settings = [word for setting in ON_LOOPBACK for word in ("--conf", setting)]
    check_measures_there(hdfs, tmp_path, "--master", cluster.master, *settings, python=python)
