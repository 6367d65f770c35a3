"""`mqlab measure RUN`: the pipeline again, over events that are there."""

from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.console import Exit, fail, io_reason, say
from mqlab.cli.interrupt import leaving_at_once
from mqlab.cli.progress import ProgressBars
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.pipeline.exhibit_inputs import exhibits_of
from mqlab.pipeline.measure import measure as run_pipeline
from mqlab.pipeline.session import SPARK_ERRORS, SparkUnavailableError, spark_session
from mqlab.study import StudyError

MasterOption = Annotated[
    str | None, typer.Option(envvar="MQLAB_MASTER", help="A Spark master; default: this machine (local[*]).")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


def measure(folder: FolderArgument, master: MasterOption = None) -> None:
    """Compute the measures of a run folder from its events, in place of what was there."""
    run_folder = open_folder(folder)
    with ProgressBars() as bars:
        measured(run_folder, master, bars)
    say(f"measures in {run_folder.measures}")


def measured(folder: RunFolder, master: str | None, bars: ProgressBars) -> None:
    try:
        exhibits = exhibits_of(folder)
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    bars.spark_starts()
    again = f"mqlab measure {folder.path}"
    with leaving_at_once(f"interrupted; the events are kept: {again}"):
        try:
            spark = spark_session(master)
        except SparkUnavailableError as error:
            fail(f"{error}. The events are kept: {again}", Exit.SYSTEM_UNAVAILABLE)
        try:
            sources = run_pipeline(spark, folder, bars.measure, exhibits)
        except SPARK_ERRORS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            fail(f"Spark cannot measure the events: {reason[:300]}. They are kept: {again}", Exit.INTERNAL)
        except OSError as error:
            why = f"{folder.measures} cannot be written: {io_reason(error)}"
            fail(f"{why}. The events are kept: {again}", Exit.INTERNAL)
    for run, reason in sources.damaged.items():
        say(f"{'every run' if run is None else f'run {run}'} is void, {reason}")
    if sources.unchecked:
        say(f"not checked: {sources.unchecked} event files carry no checksum")


def open_folder(path: Path) -> RunFolder:
    try:
        return RunFolder.open(path)
    except NotARunFolderError as error:
        fail(str(error), Exit.USAGE)
