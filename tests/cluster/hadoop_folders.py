"""A run folder on a file system of Hadoop: copied there with its shell, measured there by the command."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from cli.command import document, mqlab
from cluster.spark_servers import HOME
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import check_measures
from mqlab.pipeline.schema import TABLES
from pipeline.random_runs import random_runs
from pipeline.synthetic_runs import write


@dataclass(frozen=True)
class FileSystem:
    """`url`: a folder of it. `settings` are those of Hadoop; `jars`: a folder with its connector, if it needs one."""

    url: str
    settings: Mapping[str, str] = field(default_factory=dict)
    jars: Path | None = None


def check_measures_there(system: FileSystem, work: Path, *options: str, python: Path = Path(sys.executable)) -> None:
    """Measure a run folder on this machine, and one there with these options, and compare the tables bit for bit.

    `python`: that of the executors.
    """
    folder = write(work / "run", random_runs()[:6])
    mqlab("measure", folder.path)
    expected = _tables(folder)
    shutil.rmtree(folder.measures)
    _shell(system, work, "-put", str(folder.path), f"{system.url}/run")
    settings = {f"spark.hadoop.{name}": text for name, text in system.settings.items()}
    if system.jars:
        for side in ("driver", "executor"):
            settings[f"spark.{side}.extraClassPath"] = f"{system.jars}/*"
    words = [*options, *(word for name, text in settings.items() for word in ("--conf", f"{name}={text}"))]
    measured = mqlab("measure", f"{system.url}/run", "--check", *words, PYSPARK_PYTHON=str(python))
    assert "columns and SQL count the same events" in measured.stderr, measured.stderr
    assert f"measures in {system.url}/run/measures" in measured.stderr, measured.stderr
    assert "the history cannot be written" not in measured.stderr, measured.stderr
    listed = mqlab("history", "list", "--runs", system.url, "--json", *words, PYSPARK_PYTHON=str(python))
    measures = document(listed.stdout)["measures"]
    assert {row["run_folder"] for row in measures} == {"run"}, listed.stderr
    _shell(system, work, "-get", f"{system.url}/run/measures", str(folder.measures))
    check_measures(RunFolder.open(folder.path))
    assert _tables(folder) == expected


def _shell(system: FileSystem, work: Path, *arguments: str) -> None:
    """Run the file system shell of Hadoop, as a user would to copy a run folder."""
    properties = (
        f"<property><name>{name}</name><value>{escape(text)}</value></property>"
        for name, text in system.settings.items()
    )
    (work / "core-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
    classes = ":".join((str(work), f"{HOME}/jars/*", *([f"{system.jars}/*"] if system.jars else [])))
    command = ["java", "-cp", classes, "org.apache.hadoop.fs.FsShell", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]


def _tables(folder: RunFolder) -> dict[str, bytes]:
    return {name: (folder.measures / name / "part.parquet").read_bytes() for name in TABLES}
