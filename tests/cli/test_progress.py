"""The progress of a run: a live table on a terminal of any width, plain lines elsewhere."""

from io import StringIO

import pytest
from rich.console import Console

from mqlab.cli.terminal.progress import ProgressBars
from mqlab.cli.terminal.rate_table import RateTable
from mqlab.cli.terminal.sparkline import sparkline
from mqlab.runner.results.progress import FinishedRun, Progress


@pytest.mark.parametrize(
    ("phase", "seconds", "words"),
    [
        ("measure", 2.5, "3 of 9: A, measure (2.5 s)"),
        ("warm-up", 1.0, "3 of 9: A, warm-up (1 s)"),
        ("measure", 0.0, "3 of 9: A, measure"),
        ("drain", 30.0, "3 of 9: A, drain"),
    ],
)
def test_a_phase_has_its_length_where_it_is_known(phase: str, seconds: float, words: str) -> None:
    bars = ProgressBars()
    bars.update_load(Progress(2, 9, "A", phase, seconds))
    assert bars.detail == words


def step(done: int, label: str, rate: float | None = None, of: str = "") -> Progress:
    """`of`: the point of the run that has just ended, with this rate."""
    finished = [FinishedRun("embedded", of, rate, 0.03)] if rate is not None else []
    return Progress(done, 9, label, "measure", 2.0, rate, 75.0, "embedded", finished)


def play(target: ProgressBars | RateTable) -> None:
    update = target.update if isinstance(target, RateTable) else target.update_load
    for progress in (step(0, "A"), step(1, "B", 1000.0, "A"), step(2, "A", 40.0, "B"), step(3, "A", 1010.0, "A")):
        update(progress)


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (120, ["system", "and", "point", "rate", "95", "%", "runs", "goal", "course"]),
        (80, ["system", "and", "point", "rate", "95", "%", "course"]),
        (40, ["system", "and", "point", "rate", "95", "%"]),
    ],
)
def test_the_table_fits_its_terminal(width: int, heads: list[str]) -> None:
    table = RateTable()
    assert table.render(width, 10) is None
    play(table)
    text = StringIO()
    Console(file=text, width=width).print(table.render(width, 10))
    lines = text.getvalue().splitlines()
    assert lines[0].split() == heads
    assert [line.split()[1] for line in lines[1:]] == ["B", "A"]
    assert "1 k/s" in lines[2]
    assert "± 6.3 %" in lines[2]
    assert all(len(line) <= width for line in lines)
    assert (("3%" in lines[2]), ("▁█" in lines[2])) == (width == 120, width >= 80)


def test_a_terminal_shows_table_bar_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=70, height=20, color_system=None)
    monkeypatch.setattr("mqlab.cli.terminal.progress.stderr_console", lambda: console)
    with ProgressBars() as bars:
        play(bars)
        console.print(bars._render())
        bars.start_measures()
        bars.update_measures("latencies", 3, 9)
        console.print(bars._render())
    shown = text.getvalue()
    assert "embedded A" in shown
    assert "4 of 9: A, measure (2 s); the last 1,010/s; 1 min 15 s" in shown
    assert "latencies" in shown
    # What was drawn live is gone at the end.
    assert shown.endswith(("\x1b[2K", "\x1b[?25h"))


def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    monkeypatch.setattr("mqlab.cli.terminal.progress.stderr_console", lambda: Console(file=text, soft_wrap=True))
    with ProgressBars() as bars:
        play(bars)
        bars.start_measures()
    lines = text.getvalue().splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "run 1 of 9: A", "run 2 of 9: B", "run 3 of 9: A",
        "measures: Spark reads the events",
    ]  # fmt: skip
    assert "\x1b" not in text.getvalue()


def test_a_sparkline_shows_the_last_values_from_the_least_to_the_greatest() -> None:
    assert sparkline([9, 1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([5, 5], 4) == "▁▁"
    assert sparkline([], 4) == ""
