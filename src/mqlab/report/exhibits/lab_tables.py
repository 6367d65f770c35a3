"""The lab's own tables: rates, latencies and resources of every point; the systems, drivers and the machine."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.json_values import JsonObject
from mqlab.pipeline.schema import CLEAN
from mqlab.report.data.run_results import MeasuredSystem, RunResults
from mqlab.report.exhibits.cells import absent, flag_notes, measured, needs_unit, notes_of, own_cell
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, Table, number, row
from mqlab.study import METRICS, Point
from mqlab.study.metric import metrics_of

_DURABILITY: Final = {
    "syncs": "Syncs",
    "persistent": "A persistent send is confirmed",
    "confirmed": "Any other send is confirmed",
    "acknowledged": "A received message is gone",
    "replies": "A reply is found",
}

_CALIBRATED: Final = {
    "sent_call": "A send",
    "sent_message": "Each message of it",
    "received_call": "A receive",
    "received_message": "Each message of it",
}


def points_table(results: RunResults) -> Table:
    known = {measure.metric for measure in results.measures}
    shown = [metric for metric in metrics_of("points") if metric in known] or ["rate.received"]
    heads = [METRICS[m].head if needs_unit(m) else f"{METRICS[m].head}, {METRICS[m].unit}" for m in shown]
    head = ("Scenario", "System", *heads, "Bound by", "Messages travelled", "Connections", "Send", "Load", "Runs")
    rows = []
    for point, system, name in _places(results):
        rows.append(
            row(
                Cell(point.label),
                name,
                *(measured(results, system.name, point, metric, unit=needs_unit(metric)) for metric in shown),
                _bound(results, system, point),
                _travelled(results, system, point),
                Cell(str(point.clients) if point.clients else point.connections),
                Cell(_sending(system, point)),
                Cell(point.pace),
                _runs(results, system, point),
            )
        )
    notes = (
        "Messages travelled: message by message (one call of the plain API for each, on both sides), packed (several "
        "records in one message that the application built) or confirmed one by one (message by message, and the "
        "producer waits for each confirmation), as it was recorded. Connections: each (a connection for each role) or "
        "shared (one for the roles of an agent), or their number. Send: confirmed (a producer waits for "
        "confirmations) or free; with a time, at most this far ahead of the system. Load: max (as fast as the system "
        "takes it) or a fixed rate.",
        "Bound by: what was at its limit while the rate was measured: the broker; the client (the system's client "
        "library, which is part of the system); the disk; the network, where the speed of the line is known; machine "
        "full (system and clients used all processors: the figure is that of this machine); or the lab, whose own work "
        "(numbering, checking, recording) took a tenth or more of what was short: the figure is a lower bound.",
        *flag_notes(results, results.points),
    )
    title = f"Every point, {MEASURED}, with the conditions of its rate"
    return Table(title, head, tuple(rows), notes, folded=len(rows) > formatting.LONG)


def _travelled(results: RunResults, system: MeasuredSystem, point: Point) -> Cell:
    way = results.travel(system.name, point)
    return Cell(way) if way else absent("not recorded")


def _sending(system: MeasuredSystem, point: Point) -> str:
    if point.is_unthrottled and system.ahead_seconds is not None:
        return f"{point.send}, {formatting.quantity(system.ahead_seconds, 's')} ahead"
    return point.send


def latency_table(results: RunResults) -> Table:
    return _metrics_table(
        results,
        f"Latency and confirmation, {MEASURED}",
        metrics_of("latency"),
        (
            "Latency: from a message to its receipt; response time: from a request to its reply; confirm: from a send "
            "to its confirmation.",
        ),
        loops=True,
    )


def resource_table(results: RunResults) -> Table:
    return _metrics_table(
        results,
        f"CPU, memory and syncs, {MEASURED}",
        metrics_of("resources"),
        ("CPU in percent of one core; memory is the most that was resident.",),
    )


def systems_table(results: RunResults) -> Table:
    rows = [
        row(
            own_cell(results, system.name),
            Cell(system.version or formatting.NOT_AVAILABLE),
            Cell(_given(system) or "nothing"),
            Cell("; ".join(system.stamps) or "none"),
        )
        for system in results.systems
    ]
    notes = ["A stamp marks a setting that changes the meaning of a figure. Every table shows it beside the system."]
    warmed_up = [f"{system.name} {system.rehearsals}" for system in results.systems if system.rehearsals]
    if warmed_up:
        notes.append(
            "A system in Java gets faster for some seconds after its start, and again with a new kind of load. Before "
            "the runs of each kind it had warm-up runs of a second, until it got no faster; no figure counts them: "
            f"{formatting.listed(warmed_up)}."
        )
    head = ("System", "Version", "Differs from its defaults in", "Stamps")
    return Table("Systems that were run", head, tuple(rows), tuple(notes))


def _given(system: MeasuredSystem) -> str:
    """The settings in its name, `NAME:setting=value,...`: those that were given to it."""
    return ", ".join(part.replace("=", ": ", 1) for part in system.name.partition(":")[2].split(",") if part)


def settings_table(results: RunResults) -> Table:
    """All settings of all systems, also those that are defaults."""
    rows = [
        row(own_cell(results, system.name), Cell(key), Cell(value))
        for system in results.systems
        for key, value in system.settings.items()
    ]
    return Table("All settings", ("System", "Setting", "Value"), tuple(rows), folded=True)


def durability_table(results: RunResults) -> Table:
    rows = [
        row(
            own_cell(results, system.name),
            *(Cell(system.durability.get(key) or formatting.NOT_AVAILABLE) for key in _DURABILITY),
            Cell(system.witnessed) if system.witnessed else absent("not observed"),
        )
        for system in results.systems
    ]
    note = (
        "Figures of persistent messages are like for like only between systems that sync in the same way. Seen: the "
        "lab watched the system calls of the system while it sent messages one by one and waited for each."
    )
    return Table("Durability of confirmations", ("System", *_DURABILITY.values(), "Seen"), tuple(rows), (note,))


def calibration_table(results: RunResults) -> Table | None:
    rows = [
        row(
            Cell(_way(costs)), number(formatting.quantity(costs["size"], "bytes")),
            *(number(formatting.quantity(costs[key], "s")) for key in _CALIBRATED),
        )
        for costs in results.meta.get("calibrations") or ()
        if _CALIBRATED.keys() <= costs.keys()
    ]  # fmt: skip
    if not rows:
        return None
    note = (
        "CPU time of the lab's own work: to number, check and record messages, for each call of the driver and for "
        "each message of the call. It was measured without any driver. The driver and the client library belong to "
        "the system. With request/reply, a send is a round trip at the requester, a receive one at the responder."
    )
    return Table(f"The lab's own work, {MEASURED}", ("Send", "Size", *_CALIBRATED.values()), tuple(rows), (note,))


def _way(costs: JsonObject) -> str:
    if costs["pattern"] == "request-reply":
        return "request/reply"
    return "transacted" if costs["transacted"] else str(costs["send"])


def machine_tables(results: RunResults) -> list[Table]:
    meta = results.meta
    hardware = dict(meta.get("machine") or {})
    if isinstance(hardware.get("memory"), int):
        hardware["memory"] = formatting.quantity(hardware["memory"], "bytes")
    machine = _pairs("Machine", ("Item", "Here"), hardware, folded=True)
    run = _pairs(
        "Run",
        ("Item", "Here"),
        {
            "run": meta.get("id"),
            "command": meta.get("command"),
            "started": formatting.moment(meta.get("started")),
            "finished": formatting.moment(meta.get("finished")),
            "status": meta.get("status"),
            "mqlab": meta.get("mqlab"),
            "agents": _hosts(meta),
        },
    )
    return [run, machine, _pairs("Packages", ("Package", "Version"), meta.get("packages") or {}, folded=True)]


def _hosts(meta: JsonObject) -> str:
    """How many agents there were, and on which hosts those of a Spark cluster."""
    hosts = meta.get("hosts") or []
    names = sorted({host for host in hosts if host})
    return f"{len(hosts)} on {formatting.listed(names)}" if names else str(len(hosts) or "")


def _metrics_table(
    results: RunResults, title: str, metrics: Sequence[str], notes: tuple[str, ...], loops: bool = False
) -> Table:
    """A table with a column for each metric that was measured at any point. `loops`: with the loop of each point."""
    known = {measure.metric for measure in results.measures}
    columns = [metric for metric in metrics if metric in known]
    missing = [formatting.metric(metric) for metric in metrics if metric not in known]
    rows = tuple(
        row(
            Cell(point.label, formatting.LOOPS[point.loop] if loops else ""),
            name,
            *(measured(results, system.name, point, metric) for metric in columns),
        )
        for point, system, name in _places(results)
    )
    if missing:
        notes = (*notes, f"{formatting.NOT_AVAILABLE}, not measured in any run: {formatting.listed(missing)}.")
    heads = [formatting.capital(formatting.metric(metric)) for metric in columns]
    notes = (*notes, *notes_of(results, results.points, columns))
    return Table(title, ("Scenario", "System", *heads), rows, notes, folded=len(rows) > formatting.LONG)


def _places(results: RunResults) -> Iterator[tuple[Point, MeasuredSystem, Cell]]:
    for point in results.points:
        for system in results.systems:
            yield point, system, own_cell(results, system.name)


def _bound(results: RunResults, system: MeasuredSystem, point: Point) -> Cell:
    measure = results.measure(system.name, point, point.work)
    if measure is None:
        return absent(results.absence(system.name, point, brief=True))
    if measure.bound_by is None:
        sampled = results.measure(system.name, point, "cpu.broker") is not None
        return absent("no sample shows a limit" if sampled else "the broker is not sampled, and nothing else was busy")
    return Cell(measure.bound_by, "a lower bound" if measure.lower_bound else "")


def _runs(results: RunResults, system: MeasuredSystem, point: Point) -> Cell:
    audits = results.audits_of(system.name, point)
    valid = sum(audit.status == CLEAN for audit in audits)
    return number(f"{valid} of {len(audits)}", "valid") if audits else absent("not run")


def _pairs(title: str, head: tuple[str, str], pairs: dict[str, object], folded: bool = False) -> Table:
    rows = tuple(
        row(Cell(str(key)), absent("not recorded") if value in (None, "") else Cell(str(value)))
        for key, value in pairs.items()
    )
    return Table(title, head, rows, folded=folded)
