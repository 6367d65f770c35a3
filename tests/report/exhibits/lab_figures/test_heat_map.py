"""Latency over time: cells as the pipeline counted them, phases, faults and held producers, within a small page."""

import pytest

from mqlab.report.charts.heat_maps import LEVELS, HeatCell, level
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.lab_figures import heat_map
from mqlab.report.exhibits.lab_figures.heat_map import heat_map_figures
from mqlab.report.render.content import Figure
from mqlab.report.render.page import build
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns, add_latency_slots


def figures(made: SyntheticRuns, write: Write) -> list[Figure]:
    results = RunResults.of(write(made))
    return list(heat_map_figures(results, results.points))


def rows(figure: Figure) -> list[dict[str, object]]:
    assert figure.spec is not None
    return [row for dataset in figure.spec["datasets"].values() for row in dataset]


def test_cells_phases_faults_and_episodes_are_drawn(small: SyntheticRuns, write: Write) -> None:
    add_latency_slots(small, "A", fault="kill broker")
    (figure,) = figures(small, write)
    cells = [row for row in rows(figure) if "level" in row]
    counted = {(row["seconds"], row["latency"]): row["count"] for row in small.rows["latency_slots"]}
    assert {(cell["start"], cell["high"]): cell["count"] for cell in cells} == counted
    marks = {(row["label"], row["start"], row["end"]) for row in rows(figure) if "label" in row}
    assert ("kill broker", 2.0, 3.0) in marks
    assert ("producers held back", 2.5, 3.0) in marks
    assert {"warm-up", "measure"} <= {label for label, _, _ in marks}
    assert "kill broker, producers held back" in figure.description
    # One path for each colour, however many cells there are.
    assert sum(colour in figure.svg for colour in LEVELS) > 2
    assert all(figure.svg.count(f'fill="{colour}"') <= 1 for colour in LEVELS)


def test_fewer_than_five_slots_are_not_drawn(small: SyntheticRuns, write: Write) -> None:
    add_latency_slots(small, "A", slots=4)
    assert figures(small, write) == []


def test_points_with_faults_come_first_and_the_rest_is_named(
    small: SyntheticRuns, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_latency_slots(small, "A")
    add_latency_slots(small, "H", fault="pause broker")
    assert [figure.title[0] for figure in figures(small, write)] == ["H", "A"]
    monkeypatch.setattr(heat_map, "_MOST_MAPS", 1)
    sections = {section.id: section for section in build(RunResults.of(write(small))).sections}
    assert sections["latency-over-time"].blocks[-1].text.startswith("Drawn for 1 of 2 points, first those with faults")  # type: ignore[union-attr]


def test_cells_are_merged_until_the_page_has_room(
    small: SyntheticRuns, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_latency_slots(small, "A", slots=64)
    before = sum(row["count"] for row in small.rows["latency_slots"])
    monkeypatch.setattr(heat_map, "_MOST_CELLS", 60)
    (figure,) = figures(small, write)
    cells = [row for row in rows(figure) if "level" in row]
    assert 0 < len(cells) <= 60
    assert sum(int(str(cell["count"])) for cell in cells) == before


def test_equal_ratios_are_equal_steps_of_colour() -> None:
    assert [level(count, 10_000_000) for count in (1, 9, 11, 101, 10_000_000)] == [0, 0, 1, 2, 6]
    assert level(1, 1) == len(LEVELS) - 1
    assert HeatCell(0, 1, 1e-3, 2e-3, 1).count == 1
