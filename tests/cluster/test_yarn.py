"""Measures on YARN: a resource manager and a node of Hadoop in one Java process, found by Spark's own configuration.

`make test-cluster`: it gets jars of 120 MB from Maven.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cluster.spark_servers import HOME, server
from cluster.test_hdfs import MINI_CLUSTER
from cluster.test_masters import ON_LOOPBACK, copied, drive, tables
from mqlab.events.folder import RunFolder
from mqlab.systems.install.download import Jars, install, path_of

pytestmark = pytest.mark.skipif(not os.environ.get("MQLAB_TEST_CLUSTER"), reason="this is for `make test-cluster`")

_CLUSTER: Final = Jars((*MINI_CLUSTER, "ch.qos.reload4j:reload4j:1.2.26", "org.bouncycastle:bcpkix-jdk18on:1.82"))
_SOURCE: Final = Path(__file__).with_name("YarnCluster.java")
# Spark's jars are here already, and one executor of a core is enough.
_DEFAULTS: Final = {
    "spark.yarn.jars": f"local:{HOME}/jars/*", "spark.yarn.am.memory": "256m", "spark.executor.instances": "1",
    **dict(setting.split("=", 1) for setting in ON_LOOPBACK),
}  # fmt: skip


@pytest.fixture
def hadoop(tmp_path: Path) -> Iterator[Path]:
    """The folder of Hadoop's settings for clients of the cluster."""
    install(_CLUSTER, print)
    folder, settings = tmp_path / "yarn", tmp_path / "hadoop"
    settings.mkdir()
    command = [
        "java", f"-Dtest.build.data={folder}", f"-Djava.io.tmpdir={folder}", "-cp", f"{path_of(_CLUSTER)}/*",
        str(_SOURCE), str(settings / "yarn-site.xml"),
    ]  # fmt: skip
    with server(command, folder, "(YARN has started)"):
        yield settings


def test_yarn_gives_the_same_tables(
    hadoop: Path, local: RunFolder, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = tmp_path / "spark" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.write_text("".join(f"{name} {value}\n" for name, value in _DEFAULTS.items()))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop))
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults.parent))
    folder = copied(local, tmp_path / "run")
    drive("yarn", folder.path, python=python)
    assert tables(folder) == tables(local)
