"""An archive of the classes of Spark that the pipeline uses: Java maps it instead of loading them from 200 jars.

`python -m mqlab.pipeline.java.class_archive` makes it, by a short study and its measures. It belongs to one
environment of Python; Java ignores it if another Java or other jars are there.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

ARCHIVE: Final = Path(sys.prefix, "spark-classes.jsa")
_STUDY: Final = """
study: classes
title: Every kind of measure
scenarios:
  topics: {topics: 1, producers: 2, consumers: 2, message: {size: 12B, persistent: yes}, send: confirmed, rate: 400/s}
  requests: {pattern: request-reply, queues: 1, requesters: 2, responders: [1, 2], message: {size: 32B}}
scales:
  quick: {phases: {warmup: 100ms, measure: 400ms, drain: 60s}, repeat: {until: none, least: 2, most: 2}}
exhibits:
  - {bars: "Rates of {scenario}", each: scenario, of: system, value: rate.received}
"""
# Java writes the archive when it ends, which is after the command.
_MOST_SECONDS: Final = 120.0


def archive_option() -> str:
    """The option for Java to use the archive; "" if there is none."""
    return f"-XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""


def make_archive() -> None:
    unfinished = ARCHIVE.with_suffix(".unfinished")
    environment = os.environ | {"MQLAB_IGNORE_NOISE": "1"}
    with TemporaryDirectory(prefix="mqlab-classes-") as folder:
        Path(folder, "study.yaml").write_text(_STUDY)
        options = f"spark.driver.extraJavaOptions=-XX:ArchiveClassesAtExit={unfinished}"
        command = [sys.executable, "-m", "mqlab", "run", "study.yaml", "--conf", options]
        subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        writers = [java for java in psutil.process_iter(["cmdline"]) if str(unfinished) in str(java.info["cmdline"])]
        _, late = psutil.wait_procs(writers, _MOST_SECONDS)
    if late or not unfinished.exists():
        raise SystemExit("Java wrote no archive of its classes: Spark starts more slowly")
    unfinished.replace(ARCHIVE)


if __name__ == "__main__":
    make_archive()
