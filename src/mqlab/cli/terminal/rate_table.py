"""The rates of the finished runs as a table of the terminal: a line for each point on each system."""

from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, stdev
from typing import Final

from rich.table import Table
from rich.text import Text

from mqlab.cli.terminal.sparkline import sparkline
from mqlab.report.render import formatting
from mqlab.runner.conductor import Progress
from mqlab.study.language.units import format_percent
from mqlab.study.statistics import t975

# With fewer columns the goal and the number of runs are left out, then the course of the rates.
_WIDE: Final = 90
_NARROW: Final = 60
_COURSE: Final = 16


@dataclass
class _Line:
    name: str
    goal: float | None
    rates: list[float] = field(default_factory=list)

    @property
    def width(self) -> float | None:
        """The half width of the 95 % interval, as a share of the mean."""
        mean = fmean(self.rates)
        if len(self.rates) < 2 or not mean:
            return None
        return t975(len(self.rates) - 1) * stdev(self.rates) / sqrt(len(self.rates)) / mean


class RateTable:
    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}

    def update(self, progress: Progress) -> None:
        for run in progress.finished:
            key = (run.system, run.point)
            # The line of the last run is the last one.
            line = self._lines.pop(key, None) or _Line(" ".join(filter(None, key)), run.goal)
            line.rates.append(run.rate)
            self._lines[key] = line

    def render(self, width: int, rows: int) -> Table | None:
        """The table for a terminal of `width` columns, of the last `rows` lines; None before the first run is over."""
        if not self._lines or rows < 1:
            return None
        names = ["system and point", "rate", "95 %"]
        names += ["runs", "goal"] if width >= _WIDE else []
        names += ["course"] if width >= _NARROW else []
        table = Table(box=None, pad_edge=False)
        for name in names:
            is_text = name in ("system and point", "course")
            table.add_column(name, no_wrap=True, overflow="ellipsis", justify="left" if is_text else "right")
        for line in [*self._lines.values()][-rows:]:
            cells = _cells(line)
            table.add_row(*(Text(cells[name]) for name in names))
        return table


def _cells(line: _Line) -> dict[str, str]:
    width = line.width
    return {
        "system and point": line.name,
        "rate": f"{formatting.short(fmean(line.rates))}/s",
        "95 %": "" if width is None else f"{formatting.PLUS_MINUS} {100 * width:.1f} %",
        "runs": str(len(line.rates)),
        "goal": "" if line.goal is None else format_percent(line.goal),
        "course": sparkline(line.rates, _COURSE),
    }
