"""The charts show what they were given, and say how."""

import re
import xml.etree.ElementTree as ET

import pytest

from mqlab.report.charts import bar_charts, line_charts
from mqlab.report.charts.drawing import MEASURED_COLOUR, PALETTE, PUBLISHED_COLOUR, needs_log
from mqlab.report.render.content import MEASURED, PUBLISHED


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter() if element.tag.endswith(("text", "tspan"))]


def labels(picture: str, role: str) -> list[tuple[str, str | None]]:
    """The words and the colour of every mark of a role."""
    found = ET.fromstring(picture).iter()
    return [(e.get("aria-label", ""), e.get("fill")) for e in found if e.get("aria-roledescription") == role]


FAR_APART = [
    bar_charts.Bar("HornetQ 2.1.1", 263454.0, None, PUBLISHED, "263,454"),
    bar_charts.Bar("OpenMQ 4.4", 4915.0, None, PUBLISHED, "4,915"),
    bar_charts.Bar("embedded\n[sync: off]", 21e6, 1e5, MEASURED, "21,000,000"),
]


def test_bars_have_their_origin_as_colour_and_in_words() -> None:
    picture = bar_charts.bars(FAR_APART, "messages/s").svg
    assert labels(picture, "bar") == [
        ("HornetQ 2.1.1, published: 263,454", PUBLISHED_COLOUR),
        ("OpenMQ 4.4, published: 4,915", PUBLISHED_COLOUR),
        ("embedded [sync: off], measured here: 21,000,000 ± 100,000", MEASURED_COLOUR),
    ]
    assert {"published", "measured here", "263,454", "4,915", "21,000,000", "[sync: off]"} <= set(texts(picture))


def test_a_wide_range_has_a_log_axis_that_says_so() -> None:
    wide, narrow = bar_charts.bars(FAR_APART, "messages/s").svg, bar_charts.bars(FAR_APART[:1], "messages/s").svg
    assert any("log scale" in text for text in texts(wide))
    assert "messages/s" in texts(narrow)
    assert {"1k", "10k", "100k", "1M", "10M"} <= set(texts(wide))


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0, 49.0], False), ([1.0, 51.0], True), ([0.0, 5.0], False), ([], False)]
)
def test_needs_log(values: list[float], expected: bool) -> None:
    assert needs_log(values) is expected


def rules(picture: str) -> int:
    group = re.search(r'<g class="mark-rule role-mark[^>]*>(.*?)</g>', picture)
    return group[1].count("<line") if group else 0


def test_only_an_interval_has_a_whisker() -> None:
    assert rules(bar_charts.bars(FAR_APART, "messages/s").svg) == 1
    assert rules(bar_charts.bars(FAR_APART[:2], "messages/s").svg) == 0


def test_a_bar_without_a_value_keeps_its_place() -> None:
    given = [bar_charts.Bar("first", None, None, MEASURED, "n/a"), bar_charts.Bar("second", 5.0, None, MEASURED, "5")]
    picture = bar_charts.bars(given, "messages/s").svg
    assert [words for words, _ in labels(picture, "bar")] == ["second, measured here: 5"]
    shown = texts(picture)
    assert shown.index("first") < shown.index("second")
    assert "n/a" in shown
    assert "published" not in shown


def test_no_value_at_all_is_still_a_chart() -> None:
    assert "n/a" in texts(bar_charts.bars([bar_charts.Bar("only", None, None, MEASURED, "n/a")], "messages/s").svg)


def test_an_interval_wider_than_its_value_stays_in_the_chart() -> None:
    given = [bar_charts.Bar("a", 10.0, 90.0, MEASURED, "10"), bar_charts.Bar("b", 1000.0, 9000.0, MEASURED, "1,000")]
    picture = bar_charts.bars(given, "messages/s").svg
    assert "NaN" not in picture
    assert rules(picture) == 2


def test_dots_show_every_point_and_system() -> None:
    picture = bar_charts.dots([("A", bar) for bar in FAR_APART] + [("B", FAR_APART[0])], "messages/s").svg
    assert len(labels(picture, "point")) == 4
    assert "messages/s, log scale" in texts(picture)


def test_long_names_stand_one_below_the_other_in_the_legend() -> None:
    def legend_height(words: str) -> float:
        here = [bar_charts.Bar(f"embedded:{n}\n[sync {words}]", 1.0 + n, None, MEASURED, "1") for n in range(2)]
        picture = bar_charts.dots([("A", bar) for bar in [FAR_APART[0], *here]], "messages/s").svg
        top = re.search(r"translate\([\d.]+,([\d.]+)\)", picture)
        assert top is not None
        return float(top[1])

    two_lines = 20.0
    assert legend_height("off: a power failure loses confirmed messages") > legend_height("off") + two_lines


def test_each_of_several_systems_has_its_dots_in_its_colour() -> None:
    here = [bar_charts.Bar(f"s{n}\n[x: y]", 10.0 + n, None, MEASURED, "10") for n in range(len(PALETTE) + 1)]
    picture = bar_charts.dots([("A", bar) for bar in [FAR_APART[0], *here]], "messages/s").svg
    colours = [colour for _, colour in labels(picture, "point")]
    assert colours == [PUBLISHED_COLOUR, *PALETTE, PALETTE[0]]
    assert {"published", *(f"s{n} [x: y]" for n in range(len(here)))} <= set(texts(picture))
    # Where a colour comes again, the shape is another.
    shapes = re.findall(r'aria-roledescription="point"[^>]*d="([^"]*)"', picture)
    shapes = shapes or re.findall(r'd="([^"]*)"[^>]*aria-roledescription="point"', picture)
    assert len(set(shapes)) == 3
    alone = bar_charts.dots([("A", bar) for bar in FAR_APART], "messages/s").svg
    assert {"published", "measured here"} <= set(texts(alone))


def test_names_cannot_become_markup() -> None:
    name = "<script>alert(1)</script>"
    picture = bar_charts.bars([bar_charts.Bar(name, 5.0, None, MEASURED, "5")], "messages/s").svg
    assert name in texts(picture)
    assert "<script" not in picture


def test_latencies_have_a_percentile_axis_and_marks() -> None:
    curve = line_charts.Curve("embedded", [(0.1, 1e-4), (0.5, 4e-4), (0.999, 0.02)], [(0.5, 4e-4, "50 %: 400 µs")])
    picture = line_charts.latencies([curve], ["embedded"]).svg
    assert {"50 %", "90 %", "99 %", "100 µs", "1 ms", "30 ms", "latency, log scale"} <= set(texts(picture))
    assert ("embedded: 50 %: 400 µs", MEASURED_COLOUR) in labels(picture, "circle")


def test_a_system_keeps_its_colour_when_it_is_alone() -> None:
    curve = line_charts.Curve("second", [(0.5, 1e-3), (0.9, 2e-3)], [(0.5, 1e-3, "x")])
    picture = line_charts.latencies([curve], ["first", "second"]).svg
    assert labels(picture, "circle")[0][1] == PALETTE[1]
    assert "first" not in texts(picture)


def test_a_latency_of_zero_does_not_break_the_log_axis() -> None:
    picture = line_charts.latencies([line_charts.Curve("a", [(0.5, 0.0), (0.9, 1e-3)], [])], ["a"]).svg
    assert "NaN" not in picture


def test_series_veils_the_phases_that_do_not_count() -> None:
    lines = [line_charts.Steps("embedded", "1", side, [(0, 5.0), (1, 9.0), (2, 1.0)]) for side in ("received", "sent")]
    picture = line_charts.series(lines, [line_charts.Band("warm-up", 0, 1)], ["embedded"]).svg
    assert {"warm-up", "received", "sent", "embedded"} <= set(texts(picture))
    assert {"0", "3"} <= set(texts(picture)), "the last second reaches to its end"


@pytest.mark.parametrize(("share", "expected"), [(0.0, 0.0), (0.9, 1.0), (0.999, 3.0), (1.0, 5.0)])
def test_stretched(share: float, expected: float) -> None:
    assert line_charts.stretched(share) == pytest.approx(expected)
