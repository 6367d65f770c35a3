"""A run folder on S3, measured by the command: the server of moto, the connector of hadoop-aws, both real.

`make test-cluster`: it gets the server from PyPI, and jars of 690 MB from Maven.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

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
_CONNECTOR: Final = Jars(("org.apache.hadoop:hadoop-aws:3.5.0",))
_BUCKET: Final = "s3a://lab"


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A server with a bucket, and the settings of Hadoop that lead there."""
    install(_CONNECTOR, print)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with server(command, tmp_path / "s3", "(Running on)"):
        with urlopen(Request(f"http://127.0.0.1:{port}/lab", method="PUT")):
            pass
        yield {
            "fs.s3a.endpoint": f"http://127.0.0.1:{port}", "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true", "fs.s3a.access.key": "mine", "fs.s3a.secret.key": "secret",
        }  # fmt: skip


def shell(configuration: Path, *arguments: str) -> None:
    """Run the file system shell of Hadoop, as a user would to copy a run folder."""
    classes = f"{configuration}:{HOME}/jars/*:{path_of(_CONNECTOR)}/*"
    command = ["java", "-cp", classes, "org.apache.hadoop.fs.FsShell", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]


def tables(folder: RunFolder) -> dict[str, bytes]:
    return {name: (folder.measures / name / "part.parquet").read_bytes() for name in TABLES}


def test_a_run_folder_is_measured_where_it_is(settings: dict[str, str], tmp_path: Path) -> None:
    folder = write(tmp_path / "run", random_runs()[:6])
    mqlab("measure", folder.path)
    expected = tables(folder)
    shutil.rmtree(folder.measures)
    properties = (
        f"<property><name>{name}</name><value>{escape(text)}</value></property>" for name, text in settings.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    shell(tmp_path, "-put", str(folder.path), f"{_BUCKET}/run")
    options = {f"spark.hadoop.{name}": text for name, text in settings.items()}
    options |= {"spark.driver.extraClassPath": f"{path_of(_CONNECTOR)}/*"}
    words = [word for name, text in options.items() for word in ("--conf", f"{name}={text}")]
    measured = mqlab("measure", f"{_BUCKET}/run", "--check", *words)
    assert "columns and SQL count the same events" in measured.stderr, measured.stderr
    assert f"measures in {_BUCKET}/run/measures" in measured.stderr
    shell(tmp_path, "-get", f"{_BUCKET}/run/measures", str(folder.measures))
    check_measures(RunFolder.open(folder.path))
    assert tables(folder) == expected
