"""`mqlab measure RUN...`: compute the measures of run folders from their events."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

import typer
from pyspark.sql import SparkSession

from mqlab.cli.terminal.console import Exit, fail, io_reason, say
from mqlab.cli.terminal.exit_status import exit_with_status
from mqlab.cli.terminal.interrupt import exit_on_signal
from mqlab.cli.terminal.progress import ProgressBars
from mqlab.events.folder import NotARunFolderError, RunFolder
from mqlab.pipeline.counts.run_source import is_url
from mqlab.pipeline.exhibit_inputs import load_exhibits
from mqlab.pipeline.following.follower import EndedRun, Follower
from mqlab.pipeline.following.running_audit import AuditSoFar
from mqlab.pipeline.following.running_run import RunProgress
from mqlab.pipeline.history.dataset import record_history
from mqlab.pipeline.measure import differing_counts
from mqlab.pipeline.measure import measure as run_pipeline
from mqlab.pipeline.remote_folder import RemoteFolder
from mqlab.pipeline.session import SPARK_ERRORS, SparkSettingError, SparkTarget, SparkUnavailableError, spark_session
from mqlab.report.render import formatting
from mqlab.study import StudyError
from mqlab.study.metric import METRICS

# The metrics of a run that `--follow` prints.
_SHOWN: Final = ("rate.round_trips", "rate.received", "rate.sent", "latency.p50", "latency.p99", "response.p99")

MasterOption = Annotated[
    str | None,
    typer.Option(
        envvar="MQLAB_MASTER",
        help="The Spark master (spark://HOST:PORT, yarn, k8s://...), or sc://HOST:PORT for Spark Connect; "
        "default: this machine (local[*]).",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be repeated. See docs/scale.md."),
]
FoldersArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Run folders: paths, or URLs that Spark reads (hdfs://..., s3a://...)."),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Count all events a second time, in SQL, and compare; slow for large runs.")
]


FollowOption = Annotated[
    bool, typer.Option("--follow", help="Measure while the runs go on, and print their figures as they end.")
]


def measure(
    folders: FoldersArgument, master: MasterOption = None, conf: ConfOption = None, check: CheckOption = False,
    follow: FollowOption = False,
) -> None:  # fmt: skip
    """Compute the measures of run folders from their events and replace existing measures."""
    target = spark_target(master, conf)
    # Opened before the first pass, which may take long.
    opened = {name: open_folder(path) for name in folders if (path := local_path(name)) is not None}
    if follow and (len(folders) > 1 or not opened or target.is_connect):
        fail("--follow needs one run folder of this machine, and no Spark Connect", Exit.USAGE)
    with TemporaryDirectory(prefix="mqlab-copies-") as copies:
        measured = []
        for number, name in enumerate(folders):
            remote = None if name in opened else _fetch(name, target, Path(copies, str(number)))
            folder = remote.copy if remote else opened[name]
            if follow:
                follow_runs(folder, target)
            else:
                with ProgressBars() as bars:
                    run_measure(folder, target, bars, remote)
            if check:
                check_counts(folder, target, remote)
            say(f"measures in {remote.url}/measures" if remote else f"measures in {folder.measures}")
            measured.append(folder)
        exit_with_status(measured)


def _fetch(url: str, target: SparkTarget, path: Path) -> RemoteFolder:
    with exit_on_signal(f"interrupted; the events are kept: mqlab measure {url}"):
        try:
            return RemoteFolder.fetch(spark_session(target), url, path)
        except SparkUnavailableError as error:
            fail(str(error), Exit.SYSTEM_UNAVAILABLE)
        except NotARunFolderError as error:
            fail(str(error), Exit.USAGE)
        except SPARK_ERRORS as error:
            fail(f"Spark cannot read {url}: {_first_line(error)}", Exit.INTERNAL)


def spark_target(master: str | None, conf: list[str] | None) -> SparkTarget:
    try:
        return SparkTarget.parse(master, conf or ())
    except SparkSettingError as error:
        fail(str(error), Exit.USAGE)


def check_counts(folder: RunFolder, target: SparkTarget, remote: RemoteFolder | None = None) -> None:
    """Count the events in both ways, once they are measured. Ends the command if the counts differ."""
    with exit_on_signal("interrupted; the measures are kept"):
        say("counting all events a second time, in SQL")
        try:
            different = differing_counts(spark_session(target), folder, remote.sources if remote else None)
        except SPARK_ERRORS as error:
            fail(f"Spark cannot count the events in SQL: {_first_line(error)}", Exit.INTERNAL)
    if different:
        fail(f"columns and SQL count different events: {', '.join(different)}", Exit.INTERNAL)
    say("columns and SQL count the same events")


def measure_so_far(folder: RunFolder, target: SparkTarget) -> None:
    """Run the pipeline while the runner goes on later. Ends the command on an error; it is called in a thread."""
    try:
        run_pipeline(spark_session(target), folder, None, load_exhibits(folder))
    except (SparkUnavailableError, *SPARK_ERRORS) as error:
        fail(f"Spark cannot measure the events of the search: {_first_line(error)}", Exit.SYSTEM_UNAVAILABLE)


def follow_runs(folder: RunFolder, target: SparkTarget) -> None:
    """Measure the runs of the folder until the last has ended. Ends the command on an error."""
    with _pipeline_errors(folder, str(folder.path)):
        follower = Follower(spark_session(target), folder, _say_ended, _say_progress)
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
    if run.audit is not None:
        parts += _audit_so_far(run.audit, has_sends=run.sent > 0)
    if run.rate is not None:
        parts.append(f"{run.rate:,.0f}/s")
    if run.p50 is not None and run.p99 is not None:
        p50, p99 = (formatting.quantity(value, "s") for value in (run.p50, run.p99))
        parts.append(f"p50 {p50} and p99 {p99} of {run.timed:,} messages")
    if run.untimed:
        parts.append(f"latencies of {run.untimed:,} messages are not known")
    say(f"run {run.run} goes on: {', '.join(parts)}")


def _audit_so_far(audit: AuditSoFar, *, has_sends: bool) -> Iterator[str]:
    if has_sends:
        yield f"{audit.not_received:,} not received yet"
    if audit.received_again:
        yield f"{audit.received_again:,} received again"
    if audit.out_of_order:
        yield f"{audit.out_of_order:,} out of order"


def run_measure(folder: RunFolder, target: SparkTarget, bars: ProgressBars, remote: RemoteFolder | None = None) -> None:
    """Run the pipeline on the folder and show its progress. Ends the command on an error.

    `remote`: where the folder is a copy of; the measures are copied back.
    """
    try:
        exhibits = load_exhibits(folder)
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    bars.start_measures()
    with _pipeline_errors(folder, remote.url if remote else str(folder.path)):
        spark = spark_session(target)
        sources = run_pipeline(
            spark, folder, bars.update_measures, exhibits, sources=remote.sources if remote else None
        )
        if remote is not None:
            remote.copy_back(spark)
            _record_remote_history(remote, spark)
    if remote is None:
        _record_history(folder)
    for run, reason in sources.damaged.items():
        say(f"{'every run' if run is None else f'run {run}'} is void: {reason}")


@contextmanager
def _pipeline_errors(folder: RunFolder, name: str) -> Iterator[None]:
    """End the command on a signal, an error of Spark or of a file. `name`: of the run folder, as the user gave it."""
    kept = f"events are kept: mqlab measure {name}"
    with exit_on_signal(f"interrupted; the {kept}"):
        try:
            yield
        except SparkUnavailableError as error:
            fail(f"{error}. The {kept}", Exit.SYSTEM_UNAVAILABLE)
        except SPARK_ERRORS as error:
            fail(f"Spark cannot measure the events: {_first_line(error)}. The {kept}", Exit.INTERNAL)
        except OSError as error:
            fail(f"{folder.measures} cannot be written: {io_reason(error)}. The {kept}", Exit.INTERNAL)


def _record_history(folder: RunFolder) -> None:
    try:
        record_history(folder)
    except OSError as error:
        say(f"the history cannot be written: {io_reason(error)}")


def _record_remote_history(remote: RemoteFolder, spark: SparkSession) -> None:
    try:
        remote.record_history(spark)
    except NotARunFolderError as error:
        say(f"the history cannot be written: {error}")
    except SPARK_ERRORS as error:
        say(f"the history cannot be written: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    """The line that names the error of a task, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = (line for line in lines if re.match(r"(: )?[A-Za-z_.]*(Error|Exception): ", line))
    return next(named, lines[0] if lines else type(error).__name__).removeprefix(": ")[:300]


def local_path(name: str) -> Path | None:
    """The path of a run folder on this machine; None for a URL of another file system."""
    if not is_url(name):
        return Path(name)
    return Path(unquote(urlsplit(name).path)) if name.startswith("file:") else None


def open_folder(path: Path) -> RunFolder:
    try:
        return RunFolder.open(path)
    except NotARunFolderError as error:
        fail(str(error), Exit.USAGE)
