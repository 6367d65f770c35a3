"""Shared by the commands of `mqlab history`: the options that choose measures, and the way to them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from pyspark.sql import DataFrame

from mqlab.cli.measure import local_path, spark_target
from mqlab.cli.terminal.console import Exit, fail
from mqlab.cli.terminal.interrupt import exit_on_signal
from mqlab.pipeline.history.dataset import HistoryFilter, NoHistoryError, read_history
from mqlab.pipeline.session import SPARK_ERRORS, SparkUnavailableError, spark_session

T = TypeVar("T")
_PATTERN = "; * stands for any characters; may be repeated."

RunsOption = Annotated[
    str,
    typer.Option(
        envvar="MQLAB_RUNS", help="The folder with the run folders: a path, or a URL (hdfs://..., s3a://...)."
    ),
]
StudyOption = Annotated[list[str] | None, typer.Option(help=f"A study{_PATTERN}")]
ScaleOption = Annotated[list[str] | None, typer.Option(help=f"A scale{_PATTERN}")]
ScenarioOption = Annotated[list[str] | None, typer.Option(help=f"A scenario{_PATTERN}")]
PointOption = Annotated[list[str] | None, typer.Option(help=f"A point{_PATTERN}")]
SystemOption = Annotated[list[str] | None, typer.Option(help=f"A system{_PATTERN}")]
MetricOption = Annotated[list[str] | None, typer.Option(help=f"A metric, such as rate.received{_PATTERN}")]
MachineOption = Annotated[list[str] | None, typer.Option(help=f"The id of a machine{_PATTERN}")]
SinceOption = Annotated[
    datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Runs started since then, in UTC.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def history_filter(since: datetime | None, **patterns: list[str] | None) -> HistoryFilter:
    chosen = {column: texts for column, texts in patterns.items() if texts}
    return HistoryFilter(chosen, since and since.replace(tzinfo=UTC))


def query(
    runs: str, chosen: HistoryFilter, master: str | None, conf: list[str] | None, compute: Callable[[DataFrame], T]
) -> T:
    """Let Spark compute something from the chosen measures. Ends the command on an error."""
    path = local_path(runs)
    # Of run folders behind a URL, this machine has no copies from which it could write the history again.
    rewrite = f"mqlab measure {runs.rstrip('/')}/RUN" if path is None else f"mqlab history rebuild --runs {runs}"
    with _errors(rewrite), exit_on_signal("interrupted"):
        return compute(read_history(spark_session(spark_target(master, conf)), path or runs, chosen))


@contextmanager
def _errors(rewrite: str) -> Iterator[None]:
    """`rewrite`: the command that writes the history again."""
    try:
        yield
    except NoHistoryError as error:
        fail(f"{error}; mqlab run and mqlab measure write it, and: {rewrite}", Exit.USAGE)
    except SparkUnavailableError as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)
    except SPARK_ERRORS as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        fail(f"Spark cannot read the history: {reason[:300]}; remove its damaged files, then: {rewrite}", Exit.INTERNAL)
