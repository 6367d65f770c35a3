"""The diagrams of a study: its set-up, and the flow of messages in each scenario."""

from collections.abc import Sequence
from typing import Final

from mqlab.report.charts import diagrams, svg
from mqlab.report.data.run_results import RunResults
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED, Block, Cell, Figure, Table, row
from mqlab.study import Exhibit, Point

# The most diagrams of one scenario.
_MOST: Final = 3
_PROCESSES: Final = {
    "client": "the agents and the system are processes of their own.",
    "bindings": "the system runs inside the agent that plays the roles.",
    "distributed": "two agents, each with a broker inside it, and channels between the brokers.",
}


def diagram(results: RunResults, exhibit: Exhibit, scenario: str) -> tuple[Block, ...]:
    points = results.points_of(scenario)
    distinct = {(p.producers, p.consumers, p.requesters, p.responders, p.destinations, p.persistent): p for p in points}
    shown = points if len(points) <= _MOST else list(distinct.values())
    if len(shown) > _MOST:
        shown = [shown[0], shown[-1]]
    return tuple(_diagram(results, exhibit, point) for point in shown)


def _diagram(results: RunResults, exhibit: Exhibit, point: Point) -> Figure:
    name = results.figure_name("diagram", point)
    description = _describe(point)
    title = exhibit.title_for(point.label)
    return Figure(name, title, svg.clean(diagrams.point_diagram(point), name, description), description)


def _describe(point: Point) -> str:
    if point.pattern == "request-reply":
        pairs = formatting.count(point.destinations, "pair of queues", "pairs of queues")
        text = (
            f"{formatting.count(point.requesters, 'requester')} and {formatting.count(point.responders, 'responder')} "
            f"share {pairs}."
        )
    else:
        text = (
            f"{formatting.count(point.producers, 'producer')} send to "
            f"{formatting.count(point.destinations, point.domain)}, "
            f"{formatting.count(point.consumers, 'consumer')} receive."
        )
    process = {"client": "", "bindings": " All of it is one process.", "distributed": " Two brokers, with channels."}
    return text + process[point.topology]


def setup(results: RunResults, exhibit: Exhibit, _: str) -> tuple[Block, ...]:
    """One picture for each topology of the study, and the published conditions."""
    topologies = list(dict.fromkeys(point.topology for point in results.points))
    blocks: list[Block] = [_setup(results, exhibit, topology, len(topologies) > 1) for topology in topologies]
    source = results.study.source
    if source is not None and source.conditions:
        rows = tuple(row(Cell(key), Cell(value), origin=PUBLISHED) for key, value in source.conditions.items())
        blocks.append(Table(f"{exhibit.title}, as published", ("Item", "As published"), rows))
    return tuple(blocks)


def _setup(results: RunResults, exhibit: Exhibit, topology: str, several: bool) -> Figure:
    name = f"setup-{topology}" if several else "setup"
    cores = (results.meta.get("machine") or {}).get("cores")
    caption = f"{MEASURED}: one machine" + (f", {cores} cores" if cores else "")
    points = [point for point in results.points if point.topology == topology]
    picture = diagrams.setup_diagram([(caption, _boxes(results, topology, points))])
    description = f"Measured here, on one machine: {_PROCESSES[topology]}"
    title = f"{exhibit.title}, {topology}" if several else exhibit.title
    return Figure(name, title, svg.clean(picture, name, description), description)


def _boxes(results: RunResults, topology: str, points: Sequence[Point]) -> tuple[str, ...]:
    replies = any(point.pattern == "request-reply" for point in points)
    senders, receivers = ("requesters", "responders") if replies else ("producers", "consumers")
    system = results.systems[0].name if len(results.systems) == 1 else "system"
    if topology == "bindings":
        return (f"{senders}, {system}",) if len(system) < 9 else ("roles and system",)
    if topology == "distributed":
        return f"{senders}, broker A", f"{receivers}, broker B"
    return senders, system, receivers
