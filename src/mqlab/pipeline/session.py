"""The Spark session: on this machine by default, on any Spark master when told."""

import os
import shutil
import tempfile
from atexit import register
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with pyspark, as untyped as it
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mqlab.errors import MqlabError

LOCAL: Final = "local[*]"
_NEEDS_JAVA: Final = "the measures are computed by Spark, which needs a Java runtime, version 17 or later"

# True wherever the session runs.
_EVERYWHERE: Final = {
    "spark.app.name": "mqlab",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # A sum that overflows or a division by zero must stop the pipeline, never become a figure.
    "spark.sql.ansi.enabled": "true",
    # The pipeline has about 200 pieces of generated code; a cache of 100 would compile all of them in every pass.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # With it, every call that declares a column also tells Java from which line: three times the cost of the call.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


# What a call of Spark raises, in Python or from Java.
SPARK_ERRORS: Final = (PySparkException, Py4JError)


class SparkUnavailableError(MqlabError, RuntimeError):
    """Spark cannot be had here; the message is one sentence that says what is missing."""


def spark_session(master: str | None = None) -> SparkSession:
    """The session of this process, started on first use. `master` is a Spark master, or `sc://...` for Spark Connect.

    Raises `SparkUnavailableError`.
    """
    target = master or LOCAL
    try:
        return _connected(target) if target.startswith("sc://") else _started(target)
    except (PySparkException, Py4JError, ImportError) as error:
        reason = str(error).strip().splitlines()[0]
        raise SparkUnavailableError(f"Spark did not start on {target}: {reason}") from error


def _connected(url: str) -> SparkSession:
    # Asked first, since the client of Spark Connect ends the process when one of them is missing.
    missing = [name for name in ("grpc", "pandas", "zstandard") if find_spec(name) is None]
    if missing:
        raise ImportError(f"Spark Connect needs {', '.join(missing)} (pip install 'pyspark[connect]')")
    return SparkSession.builder.remote(url).getOrCreate()


def _started(master: str) -> SparkSession:
    conf = SparkConf().setMaster(master)
    for name, value in (_EVERYWHERE | _here(master)).items():
        conf.set(name, value)

    def start() -> SparkSession:
        if SparkContext._gateway is None:
            SparkContext(conf=conf, gateway=_gateway(conf))
        return SparkSession.builder.config(conf=conf).getOrCreate()

    # In the main thread PySpark would replace the program's own handler of Ctrl-C.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start).result()


def _here(master: str) -> dict[str, str]:
    """Settings for a master that is this very process: its own folder, loopback only, sized for its cores."""
    if not master.startswith("local"):
        return {}
    scratch = _scratch()
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # The quick compiler only: a pass over a study has ended before the thorough one has paid for itself.
        # And regions of the heap that hold several pages (below): a page larger than half of one starts a collection.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:G1HeapRegionSize=8m -Xms1g",
        # What a task takes before it knows how few rows it has; by default it would be 32 MB.
        "spark.buffer.pageSize": "2m",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # The defaults are for clusters, 200 shuffle partitions and large files. Here a task is dearer than its rows.
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.files.openCostInBytes": "65536",
        # Planning anew after every stage costs more than these small tables could gain by it.
        "spark.sql.adaptive.enabled": "false",
        # Above this many files Spark would start a job to list them, and each run has some of its own.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }


@cache
def _scratch() -> Path:
    """What Spark writes beside its results; gone with the process."""
    path = Path(tempfile.mkdtemp(prefix="mqlab-spark-"))
    register(shutil.rmtree, path, ignore_errors=True)
    return path


def _gateway(conf: SparkConf) -> Any:
    """The Java process. Its words go to a file: on the terminal they would stand between the lab's own."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=str(Path(home, "bin")) if home else None):
        where = f"in JAVA_HOME ({home})" if home else "through JAVA_HOME or PATH"
        raise SparkUnavailableError(f"{_NEEDS_JAVA}: none was found {where}")
    log = _scratch() / "spark.log"
    try:
        with log.open("wb") as words:
            return launch_gateway(conf, popen_kwargs={"stderr": words, "stdout": words})
    except PySparkException as error:
        raise SparkUnavailableError(f"Spark did not start on {conf.get('spark.master')}: {_complaint(log)}") from error


def _complaint(log: Path) -> str:
    """The line in which a Java that failed says why; a line that names an error if there is one."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line and not line.startswith(("WARNING", "NOTE"))]
    named = [line for line in said if "Error" in line or "Exception" in line]
    return (named or said or ["Java ended without a word"])[0]
