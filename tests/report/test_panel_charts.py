"""Charts in panels: sweeps, groups of bars and time series, as SVG."""

import re

import pytest

from mqlab.report.charts.drawing import PALETTE
from mqlab.report.charts.group_charts import GroupBar, GroupPanel, groups
from mqlab.report.charts.line_charts import Onset, TimeSeries, time_series_chart
from mqlab.report.charts.sweep_charts import Axes, Line, Mark, Panel, sweep

from .charts.test_bar_charts import labels, texts

AXES = Axes("Requesters", "rate", "round trips/s", labels={1.0: "1", 10.0: "10", 300.0: "300"})


def marks(*values: float, ci95: float | None = 5.0) -> tuple[Mark, ...]:
    return tuple(Mark(x, y, ci95, f"at {x:g}: {y:g}") for x, y in zip(AXES.labels, values, strict=False))


def colours(*keys: str) -> dict[str, str]:
    return dict(zip(keys, PALETTE, strict=False))


def dashes(picture: str) -> list[str]:
    """Of the lines that are drawn, not those of the legend."""
    drawn = re.findall(r'aria-roledescription="line mark"[^>]*', picture)
    return [found[1] if (found := re.search(r'stroke-dasharray="([^"]*)"', one)) else "" for one in drawn]


class TestSweep:
    def test_lines_have_the_colour_of_their_key_in_every_panel(self) -> None:
        one = Panel("one", "measured here", [Line("trace=off", marks(10, 20, 30)), Line("trace=low", marks(5, 6))])
        two = Panel("two", "measured here", [Line("trace=low", marks(7, 8, 9))])
        picture = sweep([one, two], AXES, colours("trace=off", "trace=low")).svg
        found = dict(labels(picture, "point"))
        assert (found["at 300: 30"], found["at 10: 6"], found["at 300: 9"]) == (PALETTE[0], PALETTE[1], PALETTE[1])
        shown = texts(picture)
        assert {"one", "two", "trace=off", "trace=low", "Requesters, log scale"} <= set(shown)
        assert shown.count("rate, round trips/s") == 2

    def test_a_second_figure_is_dashed_with_an_axis_of_its_own_and_its_legend_beside(self) -> None:
        axes = Axes("Requesters", "rate", "round trips/s", "CPU", "%", AXES.labels)
        lines = [Line("off", marks(10, 20)), Line("off", marks(70, 80), second=True)]
        picture = sweep([Panel("Measured here", "measured here", lines)], axes, colours("off")).svg
        assert {"off: rate", "off: CPU", "CPU, %", "rate, round trips/s"} <= set(texts(picture))
        assert dashes(picture) == ["1,0", "5,4"]

    def test_axes_of_a_family_are_the_same_and_begin_at_zero(self) -> None:
        lines = {"p": Line("a", marks(1, 2)), "q": Line("a", marks(900, 1000))}
        panels = [Panel(name, "measured here", [line]) for name, line in lines.items()]
        shown = texts(sweep(panels, AXES, colours("a")).svg)
        assert shown.count("1k") == 2
        assert shown.count("0") == 2

    def test_values_that_are_no_numbers_have_a_place_each(self) -> None:
        axes = Axes("Trace", "rate", "round trips/s", labels={0.0: "off", 1.0: "low"}, named=True)
        line = Line("embedded", [Mark(0.0, 5.0, None, "off: 5"), Mark(1.0, 4.0, None, "low: 4")])
        assert {"off", "low", "Trace"} <= set(texts(sweep([Panel("p", "f", [line])], axes, colours("embedded")).svg))

    def test_sixteen_lines_are_told_apart(self) -> None:
        keys = [f"clients={n}" for n in range(1, 9)]
        lines = [Line(key, marks(n, n + 1, n + 2)) for n, key in enumerate(keys)]
        picture = sweep([Panel(name, "measured here", lines) for name in ("a", "b")], AXES, colours(*keys)).svg
        assert set(keys) <= set(texts(picture))
        assert {colour for _, colour in labels(picture, "point")} == set(PALETTE)

    def test_one_run_has_no_whisker(self) -> None:
        picture = sweep([Panel("p", "f", [Line("a", marks(1, 2, ci95=None))])], AXES, colours("a")).svg
        assert labels(picture, "rule mark") == []
        assert len(labels(picture, "point")) == 2


class TestGroups:
    def test_published_and_measured_have_axes_from_zero_of_their_own(self) -> None:
        bars = [GroupBar("100B", "A", 12.0, None, "12", "A printed"), GroupBar("100B", "B", 121.0, None, "121", "B")]
        ours = [GroupBar("100B", "A", 9000.0, 90.0, "9,000", "A here"), GroupBar("100B", "B", None, None, "n/a", "")]
        picture = groups(
            [GroupPanel("Published", bars), GroupPanel("Measured here", ours)], colours("A", "B"), "messages/s"
        ).svg
        shown = texts(picture)
        assert {"Published", "Measured here", "12", "121", "9,000", "n/a", "A", "B"} <= set(shown)
        assert shown.count("0") == 2
        assert shown.count("100B") == 1, "the names stand once"
        assert labels(picture, "bar") == [("A printed", PALETTE[0]), ("B", PALETTE[1]), ("A here", PALETTE[0])]

    def test_all_tests_of_a_study_fit_one_chart(self) -> None:
        names = [f"Q{n}" for n in range(1, 26)]
        bars = [GroupBar(name, key, 10.0 + n, None, f"{10 + n}", name) for n, name in enumerate(names) for key in "AB"]
        picture = groups([GroupPanel("Published", bars)], colours("A", "B"), "messages/s").svg
        assert set(names) <= set(texts(picture))
        assert len(labels(picture, "bar")) == 50


class TestCourse:
    def test_rates_and_depth_stand_on_one_axis_of_time(self) -> None:
        one = TimeSeries("embedded", "1", [(0.0, 900.0, 100.0), (0.2, 100.0, 100.0)], [(0.0, 0.0), (0.2, 160.0)])
        picture = time_series_chart(
            [one], [Onset("embedded", 0.1, "producers held back after 100 ms")], ["embedded"]
        ).svg
        shown = texts(picture)
        assert {"messages/s", "messages waiting", "sent", "received", "producers held back after 100 ms"} <= set(shown)
        assert shown.count("seconds since the start of the load") == 2
        assert dashes(picture).count("4,3") == 1

    @pytest.mark.parametrize("onsets", [[], [Onset("embedded", 5.0, "late")]])
    def test_without_depth_or_onset_it_is_still_a_chart(self, onsets: list[Onset]) -> None:
        picture = time_series_chart(
            [TimeSeries("embedded", "1", [(0.0, 1.0, 1.0), (1.0, 2.0, 2.0)], [])], onsets, ["embedded"]
        ).svg
        assert "messages waiting" not in texts(picture)
        assert "NaN" not in picture
