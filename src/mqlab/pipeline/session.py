"""The Spark session: on this machine by default, or on any Spark master."""

import os
import shutil
import sys
import tempfile
from atexit import register
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with pyspark, as untyped as it
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mqlab.errors import MqlabError
from mqlab.pipeline.executors import ship_package, why_unfit
from mqlab.pipeline.java.class_archive import archive_option

LOCAL: Final = "local[*]"
_NEEDS_JAVA: Final = "the measures are computed by Spark, which needs a Java runtime, version 17 or later"

# Without these, figures could change: no option may.
_FIXED_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # A sum that overflows or a division by zero must stop the pipeline, never become a figure.
    "spark.sql.ansi.enabled": "true",
}
# Settings for every master that this process starts a driver for.
_COMMON_SETTINGS: Final = {
    "spark.app.name": "mqlab",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # The pipeline has about 200 pieces of generated code; a cache of 100 would compile all of them in every pass.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # The debugging sends the line number of every column to Java, which makes the call three times as slow.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


_MENTIONED_CLASSES: Final = (
    "functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
)

# The exceptions that a call of Spark raises, in Python or from Java.
SPARK_ERRORS: Final = (PySparkException, Py4JError)


class SparkSettingError(MqlabError, ValueError):
    """A setting of Spark cannot be used."""


class SparkUnavailableError(MqlabError):
    """Spark cannot start here; the message is one sentence that says what is missing."""


@dataclass(frozen=True)
class SparkTarget:
    """Where the pipeline runs: a Spark master, or `sc://...` for Spark Connect; None: this machine.

    `settings` come before those of this module and of Spark's own configuration (SPARK_HOME, SPARK_CONF_DIR).
    """

    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_connect(self) -> bool:
        return self.master is not None and self.master.startswith("sc://")

    @property
    def is_local(self) -> bool:
        return (self.master or LOCAL).startswith("local")

    @classmethod
    def parse(cls, master: str | None, settings: Sequence[str]) -> "SparkTarget":
        """`settings`: as `key=value`. Raises SparkSettingError."""
        parts = [text.partition("=") for text in settings]
        for text, (key, equals, _) in zip(settings, parts, strict=True):
            if not equals or not key.startswith("spark."):
                raise SparkSettingError(f"--conf {text}: must be spark.KEY=VALUE")
            if key in _FIXED_SETTINGS or key == "spark.master":
                raise SparkSettingError(f"--conf {text}: {key} cannot be set")
        return cls(master, {key: value for key, _, value in parts})


def spark_session(target: SparkTarget | None = None) -> SparkSession:
    """The session of this process, started on first use. Raises `SparkUnavailableError`."""
    target = target or SparkTarget()
    master = target.master or LOCAL
    try:
        session = _connect(master, target) if target.is_connect else _start_session(master, target)
        reason = "" if target.is_local else _prepare_executors(session)
    except (PySparkException, Py4JError, ImportError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SparkUnavailableError(f"Spark did not start on {master}: {reason}") from error
    if reason:
        session.stop()
        raise SparkUnavailableError(f"Spark cannot compute on {master}: {reason}")
    return session


def _prepare_executors(session: SparkSession) -> str:
    ship_package(session, _scratch_folder())
    return why_unfit(session)


def _connect(url: str, target: SparkTarget) -> SparkSession:
    # Checked first: the client of Spark Connect ends the process when one of them is missing.
    missing = [name for name in ("grpc", "pandas", "zstandard") if find_spec(name) is None]
    if missing:
        raise ImportError(f"Spark Connect needs {', '.join(missing)} (pip install 'mqlab[connect]')")
    builder = SparkSession.builder.remote(url)
    for name, value in ({**target.settings} | _FIXED_SETTINGS).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _start_session(master: str, target: SparkTarget) -> SparkSession:
    conf = SparkConf().setMaster(master)
    for name, value in (_COMMON_SETTINGS | _local_settings(master) | {**target.settings} | _FIXED_SETTINGS).items():
        conf.set(name, value)

    def start() -> SparkSession:
        if SparkContext._gateway is None:
            SparkContext(conf=conf, gateway=_start_java(conf))
            _remember_classes()
        return SparkSession.builder.config(conf=conf).getOrCreate()

    if current_thread() is not main_thread():
        return start()
    # Started in another thread: in the main thread PySpark would replace the program's handler of Ctrl-C.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(start).result()


def _remember_classes() -> None:
    """Look up once what PySpark names at almost every call, since Java searches all jars at each mention.

    A pass over a quick study mentions these 880 times (`study_pass` of bench/before_after.py).
    """
    java = SparkContext._jvm
    for name in _MENTIONED_CLASSES:
        setattr(java, name, getattr(java, name))


def _local_settings(master: str) -> dict[str, str]:
    """Settings for a master in this process: its own folder, loopback only, sized for its cores."""
    if not master.startswith("local"):
        return {}
    scratch = _scratch_folder()
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # Only the first compiler: a pass ends before the second one pays off. The heap regions hold several pages
        # (below), since a page larger than half a region starts a garbage collection. One pass fills the 48 MB that
        # this compiler has for its code by default; it would then compile the same again and again.
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:G1HeapRegionSize=8m -Xms1g " + archive_option()
        ),
        # Memory that a task reserves before it knows its number of rows; the default is 32 MB.
        "spark.buffer.pageSize": "2m",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # The defaults are for clusters: 200 shuffle partitions and large files. Here a task costs more than its rows.
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.files.openCostInBytes": "65536",
        # Replanning after every stage costs more than these small tables gain by it.
        "spark.sql.adaptive.enabled": "false",
        # Above this number of files Spark starts a job to list them; each run has several files.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }


@cache
def _scratch_folder() -> Path:
    """The folder of Spark's temporary files; removed at the end of the process."""
    path = Path(tempfile.mkdtemp(prefix="mqlab-spark-"))
    register(shutil.rmtree, path, ignore_errors=True)
    return path


# Any: py4j, which Spark talks to Java with, has no types.
def _start_java(conf: SparkConf) -> Any:
    """Start the Java process. Its output goes to a file, so that it does not mix with the lab's on the terminal."""
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=str(Path(home, "bin")) if home else None):
        searched = f"in JAVA_HOME ({home})" if home else "through JAVA_HOME or PATH"
        raise SparkUnavailableError(f"{_NEEDS_JAVA}: none was found {searched}")
    # The Python of the tasks has the version of this one, whatever `python3` is. PYSPARK_PYTHON is that of a cluster,
    # and may not exist here, or not have this package.
    if conf.get("spark.master", LOCAL).startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = _scratch_folder() / "spark.log"
    try:
        with log.open("wb") as output:
            return launch_gateway(conf, popen_kwargs={"stderr": output, "stdout": output})  # type: ignore[no-untyped-call] # untyped
    except PySparkException as error:
        raise SparkUnavailableError(f"Spark did not start on {conf.get('spark.master')}: {_java_error(log)}") from error


def _java_error(log: Path) -> str:
    """Return the line of Java's log that says why it failed: the first that names an error, else the first."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    messages = [line for line in lines if line and not line.startswith(("WARNING", "NOTE"))]
    errors = [line for line in messages if "Error" in line or "Exception" in line]
    return (errors or messages or ["Java ended without a message"])[0]
