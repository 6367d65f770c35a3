"""`mqlab measure RUN`: compute the measures of a run folder from its events."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from mqlab.cli.console import Exit, fail, io_reason, say
from mqlab.cli.exit_status import exit_with_status
from mqlab.cli.interrupt import exit_on_signal
from mqlab.cli.progress import ProgressBars
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.pipeline.exhibit_inputs import load_exhibits
from mqlab.pipeline.follow import EndedRun, Follower
from mqlab.pipeline.history.dataset import record_history
from mqlab.pipeline.measure import differing_counts
from mqlab.pipeline.measure import measure as run_pipeline
from mqlab.pipeline.running_run import RunProgress
from mqlab.pipeline.session import SPARK_ERRORS, SparkUnavailableError, spark_session
from mqlab.report.render import formatting
from mqlab.study import StudyError
from mqlab.study.metric import METRICS

# The metrics of a run that `--follow` prints.
_SHOWN: Final = ("rate.round_trips", "rate.received", "rate.sent", "latency.p50", "latency.p99", "response.p99")

MasterOption = Annotated[
    str | None, typer.Option(envvar="MQLAB_MASTER", help="The Spark master; default: this machine (local[*]).")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Count all events a second time, in SQL, and compare; slow for large runs.")
]


FollowOption = Annotated[
    bool, typer.Option("--follow", help="Measure while the runs go on, and print their figures as they end.")
]


def measure(
    folder: FolderArgument, master: MasterOption = None, check: CheckOption = False, follow: FollowOption = False
) -> None:
    """Compute the measures of a run folder from its events and replace existing measures."""
    run_folder = open_folder(folder)
    if follow:
        follow_runs(run_folder, master)
    else:
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


def follow_runs(folder: RunFolder, master: str | None) -> None:
    """Measure the runs of the folder until the last has ended. Ends the command on an error."""
    if master is not None and master.startswith("sc://"):
        fail("--follow does not work through Spark Connect", Exit.USAGE)
    with exit_on_signal("interrupted; the events are kept"), _pipeline_errors(folder):
        follower = Follower(spark_session(master), folder, _say_ended, _say_progress)
        try:
            follower.follow()
            follower.measure(load_exhibits(folder))
        finally:
            follower.close()
    _record_history(folder)


def _say_ended(run: EndedRun) -> None:
    audit = run.audit
    figures = [
        f"{name} {formatting.quantity(run.figures[name], METRICS[name].unit)}" for name in _SHOWN if name in run.figures
    ]
    place = " ".join(filter(None, (audit["scenario"], audit["point"], audit["system"])))
    reason = f" ({formatting.plain(audit['reason'])})" if audit["reason"] else ""
    say(f"run {audit['run']}: {place}: {audit['status']}{reason}; {', '.join(figures) or 'nothing measured'}")


def _say_progress(run: RunProgress) -> None:
    # The outcome of sends without confirmation is known, and recorded, at the end of the run.
    parts = [f"sent {run.sent:,}"] if run.sent else []
    parts.append(f"received {run.received:,}")
    if run.rate is not None:
        parts.append(f"{run.rate:,.0f}/s")
    if run.p50 is not None and run.p99 is not None:
        p50, p99 = (formatting.quantity(value, "s") for value in (run.p50, run.p99))
        parts.append(f"p50 {p50} and p99 {p99} of {run.timed:,} messages")
    say(f"run {run.run} goes on: {', '.join(parts)}")


def run_measure(folder: RunFolder, master: str | None, bars: ProgressBars) -> None:
    """Run the pipeline on the folder and show its progress. Ends the command on an error."""
    try:
        exhibits = load_exhibits(folder)
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    bars.start_measures()
    with exit_on_signal(f"interrupted; the events are kept: {_retry(folder)}"), _pipeline_errors(folder):
        sources = run_pipeline(spark_session(master), folder, bars.update_measures, exhibits)
    _record_history(folder)
    for run, reason in sources.damaged.items():
        say(f"{'every run' if run is None else f'run {run}'} is void: {reason}")


@contextmanager
def _pipeline_errors(folder: RunFolder) -> Iterator[None]:
    """End the command on an error of Spark or of a file."""
    kept = f"The events are kept: {_retry(folder)}"
    try:
        yield
    except SparkUnavailableError as error:
        fail(f"{error}. {kept}", Exit.SYSTEM_UNAVAILABLE)
    except SPARK_ERRORS as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        fail(f"Spark cannot measure the events: {reason[:300]}. {kept}", Exit.INTERNAL)
    except OSError as error:
        fail(f"{folder.measures} cannot be written: {io_reason(error)}. {kept}", Exit.INTERNAL)


def _record_history(folder: RunFolder) -> None:
    try:
        record_history(folder)
    except OSError as error:
        say(f"the history cannot be written: {io_reason(error)}")


def _retry(folder: RunFolder) -> str:
    return f"mqlab measure {folder.path}"


def open_folder(path: Path) -> RunFolder:
    try:
        return RunFolder.open(path)
    except NotARunFolderError as error:
        fail(str(error), Exit.USAGE)
