"""`mqlab measure RUN`: compute the measures of a run folder from its events."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.console import Exit, fail, io_reason, say
from mqlab.cli.exit_status import exit_with_status
from mqlab.cli.interrupt import exit_on_signal
from mqlab.cli.progress import ProgressBars
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.pipeline.exhibit_inputs import load_exhibits
from mqlab.pipeline.measure import differing_counts
from mqlab.pipeline.measure import measure as run_pipeline
from mqlab.pipeline.session import SPARK_ERRORS, SparkUnavailableError, spark_session
from mqlab.study import StudyError

MasterOption = Annotated[
    str | None, typer.Option(envvar="MQLAB_MASTER", help="The Spark master; default: this machine (local[*]).")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Count all events a second time, in SQL, and compare; slow for large runs.")
]


class PipelineTime:
    """The time that the pipeline takes of a command that also runs the load. It starts with the command."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            self._seconds += self._clock() - start

    @property
    def other_seconds(self) -> float:
        """The time since the start without the pipeline."""
        return self._clock() - self._start - self._seconds

    def sentence(self) -> str:
        whole = self._clock() - self._start
        share = 100 * self._seconds / max(whole, 1e-9)
        return f"the pipeline took {self._seconds:.0f} of {whole:.0f} s ({share:.0f} %)"


def measure(folder: FolderArgument, master: MasterOption = None, check: CheckOption = False) -> None:
    """Compute the measures of a run folder from its events and replace existing measures."""
    run_folder = open_folder(folder)
    with ProgressBars() as bars:
        run_measure(run_folder, master, bars)
    if check:
        check_counts(run_folder, master)
    say(f"measures in {run_folder.measures}")
    exit_with_status([run_folder])


def check_counts(folder: RunFolder, master: str | None) -> None:
    """Count the events in both ways, once they are measured. Ends the command if the counts differ."""
    with exit_on_signal("interrupted; the measures are kept"):
        try:
            different = differing_counts(spark_session(master), folder)
        except SPARK_ERRORS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            fail(f"Spark cannot count the events in SQL: {reason[:300]}", Exit.INTERNAL)
    if different:
        fail(f"columns and SQL count different events: {', '.join(different)}", Exit.INTERNAL)
    say("columns and SQL count the same events")


def run_measure(folder: RunFolder, master: str | None, bars: ProgressBars) -> None:
    """Run the pipeline on the folder and show its progress. Ends the command on an error."""
    try:
        exhibits = load_exhibits(folder)
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    bars.start_measures()
    retry = f"mqlab measure {folder.path}"
    with exit_on_signal(f"interrupted; the events are kept: {retry}"):
        try:
            spark = spark_session(master)
        except SparkUnavailableError as error:
            fail(f"{error}. The events are kept: {retry}", Exit.SYSTEM_UNAVAILABLE)
        try:
            sources = run_pipeline(spark, folder, bars.update_measures, exhibits)
        except SPARK_ERRORS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            fail(f"Spark cannot measure the events: {reason[:300]}. The events are kept: {retry}", Exit.INTERNAL)
        except OSError as error:
            problem = f"{folder.measures} cannot be written: {io_reason(error)}"
            fail(f"{problem}. The events are kept: {retry}", Exit.INTERNAL)
    for run, reason in sources.damaged.items():
        say(f"{'every run' if run is None else f'run {run}'} is void: {reason}")


def open_folder(path: Path) -> RunFolder:
    try:
        return RunFolder.open(path)
    except NotARunFolderError as error:
        fail(str(error), Exit.USAGE)
