"""The tables of the lab itself: every point with what shaped its rate, every run with its audit, latency, resources."""

from collections.abc import Iterator, Sequence
from typing import Final

from mqlab.report import words
from mqlab.report.cells import absent, measured, own_cell
from mqlab.report.content import MEASURED, Cell, Table, number, row
from mqlab.report.findings import CLEAN, Audit, Findings, RunMeasure, System
from mqlab.study import Point
from mqlab.study.units import format_rate

_RATES: Final = ("rate.received", "rate.sent")
LATENCIES: Final = (
    "latency.p50",
    "latency.p90",
    "latency.p99",
    "latency.p99.9",
    "latency.max",
    "latency.mean",
    "confirm.p50",
    "confirm.p99",
)
RESOURCES: Final = ("cpu.broker", "cpu.agents", "rss.broker", "rss.agents", "syncs", "sync.share", "holds")
CLASSES: Final = (
    "sent",
    "expected",
    "delivered",
    "lost",
    "duplicated",
    "duplicated_marked",
    "recovered",
    "out_of_order",
    "unexpected",
)


def points_table(findings: Findings) -> Table:
    head = (
        "Scenario",
        "System",
        "Received, messages/s",
        "Sent, messages/s",
        "Received",
        "Bound by",
        "Batch",
        "Connections",
        "Send",
        "Load",
        "Runs",
    )
    rows = []
    for point, system, name in _places(findings):
        received, sent = (measured(findings, system.name, point, rate, unit=False) for rate in _RATES)
        rows.append(
            row(
                Cell(point.label),
                name,
                received,
                sent,
                measured(findings, system.name, point, "bytes.received"),
                _bound(findings, system, point),
                number(f"{point.batch:,}"),
                Cell(point.connections),
                Cell(point.send),
                Cell("max" if point.rate is None else format_rate(point.rate)),
                _runs(findings, system, point),
            )
        )
    notes = (
        "Batch: messages that move together. Connections: each (a connection for each role) or shared (one for the "
        "roles of an agent). Send: confirmed (a producer waits for each confirmation) or free. Load: max (as fast as "
        "the system takes it) or a fixed rate.",
        "Bound by: what was busy while the rate was measured. Where it was the client, the figure is a lower bound.",
    )
    return Table(f"Every point, {MEASURED}, with what shaped its rate", head, tuple(rows), notes)


def latency_table(findings: Findings) -> Table:
    return _metrics_table(
        findings,
        f"Latency and confirmation, {MEASURED}",
        LATENCIES,
        ("Latency: from the planned time of a message to its receipt. Confirm: from a send to its confirmation.",),
    )


def resource_table(findings: Findings) -> Table:
    return _metrics_table(
        findings,
        f"CPU, memory and syncs, {MEASURED}",
        RESOURCES,
        ("CPU in percent of one core; memory is the most that was resident.",),
    )


def audit_table(findings: Findings) -> Table:
    """A void or incomplete run shows its reason and no number; a failed one shows the counts that failed it."""
    head = (
        "Run",
        "Scenario",
        "Repetition",
        "System",
        "Audit",
        "Received, messages/s",
        *(name.replace("_", " ").capitalize() for name in CLASSES),
        "Reason",
    )
    rates = {m.run: m for m in findings.run_measures if m.metric == "rate.received"}
    rows = []
    for audit in findings.audits:
        place = f"{audit.scenario} ({audit.point})" if audit.point else audit.scenario
        rate = _run_rate(audit, rates.get(audit.run))
        rows.append(
            row(
                number(f"{audit.run}"),
                Cell(place),
                number(f"{audit.repetition}"),
                own_cell(findings, audit.system),
                Cell(audit.status, tone=audit.status),
                rate,
                *(_class(audit, name) for name in CLASSES),
                Cell(audit.reason or ""),
            )
        )
    notes = (
        "Every message is accounted for. Lost: confirmed and never received. Duplicated: received more than once by a "
        "subscription (marked: as redelivered). Recovered: not confirmed, yet received. Unexpected: never sent, or "
        "refused.",
        "A run whose audit is not clean counts for no figure.",
    )
    return Table(f"Delivery audit, run by run, {MEASURED}", head, tuple(rows), notes)


def systems_table(findings: Findings) -> Table:
    rows = [
        row(
            own_cell(findings, system.name),
            Cell(system.version or words.NOT_AVAILABLE),
            Cell("; ".join(f"{key}: {value}" for key, value in system.settings.items()) or "its defaults"),
            Cell("; ".join(system.stamps) or "none"),
        )
        for system in findings.systems
    ]
    note = "A stamp marks a setting that changes what a figure means. It stands beside the system in every table."
    return Table("Systems that were run", ("System", "Version", "Settings", "Stamps"), tuple(rows), (note,))


def machine_tables(findings: Findings) -> list[Table]:
    meta = findings.meta
    found = dict(meta.get("machine") or {})
    if isinstance(found.get("memory"), int):
        found["memory"] = words.quantity(found["memory"], "bytes")
    machine = _pairs("Machine", ("Item", "Here"), found)
    run = _pairs(
        "Run",
        ("Item", "Here"),
        {
            "run": meta.get("id"),
            "command": meta.get("command"),
            "started": words.moment(meta.get("started")),
            "finished": words.moment(meta.get("finished")),
            "status": meta.get("status"),
            "mqlab": meta.get("mqlab"),
        },
    )
    return [run, machine, _pairs("Packages", ("Package", "Version"), meta.get("packages") or {}, folded=True)]


def _metrics_table(findings: Findings, title: str, metrics: Sequence[str], notes: tuple[str, ...]) -> Table:
    """Only the metrics that were measured anywhere have a column; a gap inside one says why."""
    known = {measure.metric for measure in findings.measures}
    columns = [metric for metric in metrics if metric in known]
    missing = [words.metric(metric) for metric in metrics if metric not in known]
    rows = tuple(
        row(Cell(point.label), name, *(measured(findings, system.name, point, metric) for metric in columns))
        for point, system, name in _places(findings)
    )
    if missing:
        notes = (*notes, f"{words.NOT_AVAILABLE}, not measured in any run: {words.listed(missing)}.")
    heads = [name[0].upper() + name[1:] for name in map(words.metric, columns)]
    return Table(title, ("Scenario", "System", *heads), rows, notes)


def _places(findings: Findings) -> Iterator[tuple[Point, System, Cell]]:
    for point in findings.points:
        for system in findings.systems:
            yield point, system, own_cell(findings, system.name)


def _bound(findings: Findings, system: System, point: Point) -> Cell:
    found = findings.measure(system.name, point, "rate.received")
    if found is None:
        return absent(findings.absence(system.name, point, brief=True))
    if found.bound_by is None:
        return absent("no sample decided it")
    return Cell(found.bound_by, "a lower bound" if found.lower_bound else "")


def _runs(findings: Findings, system: System, point: Point) -> Cell:
    place = (system.name, point.scenario, point.name)
    audits = [audit for audit in findings.audits if (audit.system, audit.scenario, audit.point) == place]
    valid = sum(audit.status == CLEAN for audit in audits)
    return number(f"{valid} of {len(audits)}", "valid") if audits else absent("not run")


def _run_rate(audit: Audit, found: RunMeasure | None) -> Cell:
    if audit.status != CLEAN:
        return absent(audit.status)
    return absent("not measured") if found is None else number(words.number(found.value))


def _class(audit: Audit, name: str) -> Cell:
    value: int | None = getattr(audit, name)
    if audit.status in ("void", "incomplete") or value is None:
        return absent(audit.status)
    return number(f"{value:,}")


def _pairs(title: str, head: tuple[str, str], pairs: dict[str, object], folded: bool = False) -> Table:
    rows = tuple(
        row(Cell(str(key)), absent("not recorded") if value in (None, "") else Cell(str(value)))
        for key, value in pairs.items()
    )
    return Table(title, head, rows, folded=folded)
