"""The progress of a command: on a terminal a live table of rates with a bar, otherwise plain lines."""

from types import TracebackType

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from mqlab.cli.terminal.console import stderr_console
from mqlab.cli.terminal.rate_table import RateTable
from mqlab.events.schema import MEASURE, WARM_UP
from mqlab.runner.conductor import Progress as LoadProgress
from mqlab.study.language.units import format_duration

# The lines of a terminal that the bar, the phase and the table's head take, with one that stays free.
_OTHER_LINES = 5
_MOST_LINES = 12


class ProgressBars:
    """A context manager. Without a terminal it prints one line per point, to keep logs readable."""

    def __init__(self) -> None:
        self._console = stderr_console()
        self._bars = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=None), TimeElapsedColumn(),
            console=self._console, expand=True,
        )  # fmt: skip
        self._rates = RateTable()
        self._task: TaskID | None = None
        self.detail = ""
        self._last_label = ""
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=4)

    def __enter__(self) -> "ProgressBars":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def update_load(self, progress: LoadProgress) -> None:
        self._rates.update(progress)
        # The duration of a fixed amount of work is not known.
        timed = progress.phase in (WARM_UP, MEASURE) and progress.phase_seconds > 0
        seconds = f" ({progress.phase_seconds:g} s)" if timed else ""
        run = f"{progress.runs_done + 1} of {progress.runs_expected}: {progress.label}"
        self.detail = f"{run}, {progress.phase}{seconds}{_so_far(progress)}"
        self._show("runs", progress.runs_done, progress.runs_expected)
        if not self._console.is_terminal and progress.label != self._last_label:
            self._last_label = progress.label
            self._console.print(f"run {run}{_so_far(progress)}")

    def start_measures(self) -> None:
        self.detail = "starting Spark"
        self._show("measures", 0, None)
        if not self._console.is_terminal:
            self._console.print("measures: Spark reads the events")

    def update_measures(self, table: str, done: int, total: int) -> None:
        self.detail = table
        self._show("measures", done, total)

    def _show(self, name: str, done: int, total: int | None) -> None:
        if self._task is None or self._bars.tasks[0].description != name:
            if self._task is not None:
                self._bars.remove_task(self._task)
            self._task = self._bars.add_task(name)
        self._bars.update(self._task, completed=done, total=total)

    def _render(self) -> RenderableType:
        width, height = self._console.size
        table = self._rates.render(width, min(_MOST_LINES, height - _OTHER_LINES))
        line = Text(self.detail, no_wrap=True, overflow="ellipsis")
        return Group(*([table] if table else []), self._bars, line)


def _so_far(progress: LoadProgress) -> str:
    """The last rate and the time that is left, as far as they are known."""
    rate = "" if progress.rate is None else f"; the last {progress.rate:,.0f}/s"
    left = progress.seconds_left
    return rate if left is None else f"{rate}; {format_duration(max(0, round(left)))} left"
