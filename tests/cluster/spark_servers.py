"""Servers of Spark from the package `pyspark`: a standalone cluster and a Spark Connect server, on the loopback."""

import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pyspark

HOME: Final = Path(next(iter(pyspark.__path__)))
_CLASS: Final = "org.apache.spark"
_START_SECONDS: Final = 240.0
# Servers and executors have little work: Java's optimizing compiler would cost more than it saves.
QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What an executor needs, with the packages that these need.
_NEEDED: Final = ("numpy", "numpy.libs", "pyarrow", "pyarrow.libs")


@dataclass(frozen=True)
class Cluster:
    """A standalone cluster of workers with one core each."""

    master: str
    workers: Sequence[psutil.Process]


def plain_python(folder: Path, *, without: str = "", more: Sequence[Path] = ()) -> Path:
    """A Python that has the packages that an executor needs, and no other: not even this one, unless `more` has it."""
    installed, own, program = Path(sysconfig.get_path("purelib")), folder / "packages", folder / "python"
    own.mkdir(parents=True)
    for name in _NEEDED:
        if name != without and (installed / name).exists():
            (own / name).symlink_to(installed / name)
    base = Path(sys.base_prefix) / "bin" / Path(os.path.realpath(sys.executable)).name
    paths = ":".join(map(str, (own, *more)))
    # Spark names its own packages, and those of the job, in PYTHONPATH. In the folder of a job, nothing else is found.
    script = f"""#!/bin/sh
export PYTHONPATH="$(echo "$PYTHONPATH" | tr : '\\n' | grep -E 'spark|py4j' | grep zip | tr '\\n' :){paths}"
exec {base} -S "$@"
"""
    program.write_text(script)
    program.chmod(0o755)
    return program


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    deploy, here = f"{_CLASS}.deploy", ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        program = [str(HOME / "bin" / "spark-class"), f"{deploy}.master.Master", *here, "--port", "0"]
        _, address = stack.enter_context(server(program, folder / "master", r"Starting Spark master at (spark://\S+)"))
        processes = []
        for number in range(workers):
            own = folder / f"worker-{number}"
            program = [str(HOME / "bin" / "spark-class"), f"{deploy}.worker.Worker", *here, "--work-dir", str(own)]
            program += ["--cores", "1", "--memory", "600m", address]
            process, _ = stack.enter_context(server(program, own, "Successfully registered with master (.*)"))
            processes.append(psutil.Process(process.pid))
        yield Cluster(address, processes)


@contextmanager
def connect_server(folder: Path, python: Path, *settings: str) -> Iterator[str]:
    """A Spark Connect server on two cores of this machine; its tasks run in this Python. Yields its address."""
    options = ("spark.connect.grpc.binding.port=0", "spark.connect.grpc.binding.address=127.0.0.1", *settings)
    program = [
        str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--class",
        f"{_CLASS}.sql.connect.service.SparkConnectServer",
        *(word for option in options for word in ("--conf", option)), "spark-internal",
    ]  # fmt: skip
    announced = r"Spark Connect server started at: \S+?:(\d+)"
    with server(program, folder / "connect", announced, PYSPARK_PYTHON=str(python)) as (_, port):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def server(
    command: Sequence[str], folder: Path, announced: str, **more: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A process that runs until the end of the block, and what it announced in its log."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    environment = {
        **os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folder),
        "JDK_JAVA_OPTIONS": QUICK_JAVA, **more,
    }  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        yield process, _announcement(process, log, announced)
    finally:
        if process.poll() is None:
            children = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(children)
        process.wait()


def _announcement(process: subprocess.Popen[bytes], log: Path, announced: str) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if match := re.search(announced, log.read_text(errors="replace")):
            return match[1]
        time.sleep(0.05)
    raise AssertionError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
