"""Progress bars: the runs, the phase of the present run, and the tables of the pipeline."""

from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from mqlab.cli.terminal.console import stderr_console
from mqlab.events.schema import MEASURE, WARM_UP
from mqlab.runner.conductor import Progress as LoadProgress
from mqlab.study.language.units import format_duration


class ProgressBars:
    """A context manager. Without a terminal it prints one line per point, to keep logs readable."""

    def __init__(self) -> None:
        self._console = stderr_console()
        self._bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(), console=self._console, transient=True, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._runs: TaskID | None = None
        self._tables: TaskID | None = None
        self._last_label = ""

    def __enter__(self) -> "ProgressBars":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update_load(self, progress: LoadProgress) -> None:
        if self._runs is None:
            self._runs = self._bars.add_task("runs", detail="")
        # The duration of a fixed amount of work is not known.
        timed = progress.phase in (WARM_UP, MEASURE) and progress.phase_seconds > 0
        seconds = f" ({progress.phase_seconds:g} s)" if timed else ""
        run = f"{progress.runs_done + 1} of {progress.runs_expected}: {progress.label}"
        self._bars.update(
            self._runs, completed=progress.runs_done, total=progress.runs_expected,
            detail=f"{run}, {progress.phase}{seconds}{_so_far(progress)}",
        )  # fmt: skip
        if not self._console.is_terminal and progress.label != self._last_label:
            self._last_label = progress.label
            self._console.print(f"run {run}{_so_far(progress)}")

    def start_measures(self) -> None:
        if self._runs is not None:
            self._bars.remove_task(self._runs)
            self._runs = None
        self._tables = self._bars.add_task("measures", total=None, detail="starting Spark")
        if not self._console.is_terminal:
            self._console.print("measures: Spark reads the events")

    def update_measures(self, table: str, done: int, total: int) -> None:
        assert self._tables is not None
        self._bars.update(self._tables, completed=done, total=total, detail=table)


def _so_far(progress: LoadProgress) -> str:
    """The last rate and the time that is left, as far as they are known."""
    rate = "" if progress.rate is None else f"; the last {progress.rate:,.0f}/s"
    left = progress.seconds_left
    return rate if left is None else f"{rate}; {format_duration(max(0, round(left)))} left"
