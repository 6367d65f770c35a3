"""The diagrams of a study: its set-up, and how messages go in each scenario."""

from collections.abc import Sequence
from typing import Final

from mqlab.report.charts import diagrams, svg
from mqlab.report.data.findings import Findings
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Figure, Table, row
from mqlab.study import Exhibit, Point

# Diagrams of one scenario; points that only differ in numbers look the same.
_MOST: Final = 3
_PROCESSES: Final = {
    "client": "the agents and the system are processes of their own.",
    "bindings": "the system runs inside the agent that plays the roles.",
    "distributed": "two agents, each with a broker inside it, and channels between the brokers.",
}


def diagram(findings: Findings, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    points = findings.points_of(scenario)
    apart = {(p.producers, p.consumers, p.requesters, p.responders, p.destinations, p.persistent): p for p in points}
    shown = points if len(points) <= _MOST else list(apart.values())
    if len(shown) > _MOST:
        shown = [shown[0], shown[-1]]
    return tuple(_diagram(findings, exhibit, point) for point in shown)


def _diagram(findings: Findings, exhibit: Exhibit, point: Point) -> Figure:
    name = findings.figure_name("diagram", point)
    says = _in_words(point)
    title = exhibit.title_for(point.label)
    return Figure(name, title, svg.clean(diagrams.point_diagram(point), name, says), says)


def _in_words(point: Point) -> str:
    if point.pattern == "request-reply":
        pairs = formatting.count(point.destinations, "pair of queues", "pairs of queues")
        said = (
            f"{formatting.count(point.requesters, 'requester')} and {formatting.count(point.responders, 'responder')} "
            f"share {pairs}."
        )
    else:
        said = (
            f"{formatting.count(point.producers, 'producer')} send to "
            f"{formatting.count(point.destinations, point.domain)}, "
            f"{formatting.count(point.consumers, 'consumer')} receive."
        )
    where = {"client": "", "bindings": " All of it is one process.", "distributed": " Two brokers, with channels."}
    return said + where[point.topology]


def setup(findings: Findings, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """One picture for each topology of the study; then the study's own conditions, as published."""
    topologies = list(dict.fromkeys(point.topology for point in findings.points))
    found: list[Block] = [_setup(findings, exhibit, topology, len(topologies) > 1) for topology in topologies]
    source = findings.study.source
    if source is not None and source.conditions:
        rows = tuple(row(Cell(key), Cell(value), origin=PUBLISHED) for key, value in source.conditions.items())
        found.append(Table(f"{exhibit.title}, as published", ("Item", "As published"), rows))
    return tuple(found)


def _setup(findings: Findings, exhibit: Exhibit, topology: str, several: bool) -> Figure:
    name = f"setup-{topology}" if several else "setup"
    cores = (findings.meta.get("machine") or {}).get("cores")
    caption = f"{MEASURED}: one machine" + (f", {cores} cores" if cores else "")
    points = [point for point in findings.points if point.topology == topology]
    picture = diagrams.setup_diagram([(caption, _boxes(findings, topology, points))])
    says = f"Measured here, on one machine: {_PROCESSES[topology]}"
    title = f"{exhibit.title}, {topology}" if several else exhibit.title
    return Figure(name, title, svg.clean(picture, name, says), says)


def _boxes(findings: Findings, topology: str, points: Sequence[Point]) -> tuple[str, ...]:
    replies = any(point.pattern == "request-reply" for point in points)
    one, other = ("requesters", "responders") if replies else ("producers", "consumers")
    system = findings.systems[0].name if len(findings.systems) == 1 else "system"
    if topology == "bindings":
        return (f"{one}, {system}",) if len(system) < 9 else ("roles and system",)
    if topology == "distributed":
        return f"{one}, broker A", f"{other}, broker B"
    return one, system, other
