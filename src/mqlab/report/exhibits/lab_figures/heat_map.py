"""Latency over time as a heat map: which messages of a run were slow, and what happened then."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from mqlab.pipeline.schema import DepthRow, LatencySlotRow
from mqlab.report.charts.figures import chart_figure
from mqlab.report.charts.heat_maps import HeatCell, HeatMap, heat_maps
from mqlab.report.charts.line_charts import Band
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.lab_figures.curves import FEWEST_BUCKETS
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Figure
from mqlab.study import Point

# The most heat maps of a report and the most cells of them all: a page must stay small.
_MOST_MAPS: Final = 16
_MOST_CELLS: Final = 8_000
_LONGEST_LABEL: Final = 28


def heat_map_figures(results: RunResults, points: Sequence[Point]) -> Iterator[Figure]:
    """The figures of as many of the points as the page has room for; first those with faults or held producers."""
    with_maps = [(point, maps) for point in points if (maps := _maps(results, point))]
    with_maps.sort(key=lambda entry: not any(one.faults or one.held for one in entry[1]))
    while with_maps and sum(len(maps) for _, maps in with_maps) > _MOST_MAPS and len(with_maps) > 1:
        with_maps.pop()
    room = _MOST_CELLS // max(1, sum(len(maps) for _, maps in with_maps))
    for point, maps in with_maps:
        yield _figure(results, point, [replace(one, cells=_fewer(one.cells, room)) for one in maps])


def _figure(results: RunResults, point: Point, maps: Sequence[HeatMap]) -> Figure:
    kind = "response time" if point.pattern == "request-reply" else "latency"
    title = f"{point.label}: {kind} over time, {MEASURED}"
    description = f"{title}. " + " ".join(_described(heat_map) for heat_map in maps)
    note = (
        "One run of each system. A cell counts the messages that were planned in its time and took so long; lighter "
        "cells have more. Dashed lines begin a phase, red marks a fault, and a bar along the upper edge the time in "
        "which flow control held producers back."
    )
    drawn = heat_maps(maps, kind)
    return chart_figure(results.figure_name("heat", point), title, drawn, description, (note,), wide=True)


def _described(heat_map: HeatMap) -> str:
    slowest = max(heat_map.cells, key=lambda cell: cell.high)
    high = formatting.quantity(slowest.high, "s")
    marks = [band.phase for band in (*heat_map.faults, *heat_map.held[:1])]
    happened = f"; {', '.join(marks)}" if marks else ""
    return f"{heat_map.system}: the slowest messages took up to {high}, from second {slowest.start:g}{happened}."


def _maps(results: RunResults, point: Point) -> list[HeatMap]:
    kind = "response" if point.pattern == "request-reply" else "latency"
    place = (point.scenario, point.name)
    rows = [row for row in results.latency_slots if (row.scenario, row.point) == place and row.kind == kind]
    maps = []
    for system in results.systems:
        of_system = [row for row in rows if row.system == system.name]
        first = [row for row in of_system if row.run == of_system[0].run]
        if len({row.seconds for row in first}) >= FEWEST_BUCKETS:
            maps.append(_map(results, stamped(system.name, system.stamps), first))
    return maps


def _map(results: RunResults, name: str, rows: Sequence[LatencySlotRow]) -> HeatMap:
    run, length = rows[0].run, rows[0].length
    edges = sorted({row.latency for row in rows})
    # Neighbouring buckets have edges of one ratio: that of the two nearest.
    ratio = min((high / low for low, high in pairwise(edges)), default=2.0)
    cells = [HeatCell(row.seconds, row.seconds + length, row.latency / ratio, row.latency, row.count) for row in rows]
    end = max(cell.end for cell in cells)
    faults = [
        Band(_short(fault.fault), fault.started, min(end, fault.started + (fault.lasted or 0.0)))
        for fault in results.faults
        if fault.run == run and fault.started < end
    ]
    samples = [sample for sample in results.depths if sample.run == run]
    return HeatMap(name, run, cells, _phases(results, run), faults, _held(samples, end))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}\u2026"


def _phases(results: RunResults, run: int) -> list[Band]:
    return _joined(Band(pace.phase, pace.seconds, pace.seconds) for pace in results.paces if pace.run == run)


def _joined(bands: Iterable[Band]) -> list[Band]:
    """Neighbours of the same name as one band."""
    joined: list[Band] = []
    for band in bands:
        if joined and joined[-1].phase == band.phase:
            joined[-1] = replace(joined[-1], end=band.end)
        else:
            joined.append(band)
    return joined


def _held(samples: Sequence[DepthRow], end: float) -> list[Band]:
    """The times between two samples of a broker in which it held producers back."""
    episodes: list[Band] = []
    for before, after in pairwise(samples):
        is_held = bool(after.blocked) or (after.holds or 0) > (before.holds or 0)
        if before.source != after.source or not is_held or before.seconds >= end:
            continue
        if episodes and episodes[-1].end >= before.seconds:
            episodes[-1] = replace(episodes[-1], end=min(end, after.seconds))
        else:
            episodes.append(Band("producers held back", before.seconds, min(end, after.seconds)))
    return episodes


def _fewer(cells: Sequence[HeatCell], room: int) -> list[HeatCell]:
    """At most so many cells: neighbouring slots of time become one, then all of them."""
    made = list(cells)
    while len(made) > room and len({cell.start for cell in made}) > 1:
        length = 2 * (made[0].end - made[0].start)
        merged: dict[tuple[float, float], HeatCell] = {}
        for cell in made:
            start = length * int(cell.start / length + 1e-9)
            known = merged.get((start, cell.high))
            count = cell.count + (known.count if known else 0)
            merged[start, cell.high] = HeatCell(start, start + length, cell.low, cell.high, count)
        made = list(merged.values())
    return made
