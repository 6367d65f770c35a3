"""The tables of single runs: their audits, and what the system traced of the applications."""

from typing import Final

from mqlab.pipeline.schema import CLEAN, DELIVERY_CLASSES, INCOMPLETE, VOID, AuditRow, OperationRow, RunMeasureRow
from mqlab.report.data.findings import Findings
from mqlab.report.exhibits.cells import absent, own_cell
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, Row, Table, number, row

_COUNTS: Final = ("sent", "expected", *DELIVERY_CLASSES)
# What an application did is shown for this many rows, those with the most operations.
_OPERATIONS: Final = 200


def audit_table(findings: Findings) -> Table:
    """A void or incomplete run shows its reason and no number; a failed one shows the counts that failed it."""
    head = (
        "Run",
        "Scenario",
        "Repetition",
        "System",
        "Audit",
        "Rate, messages/s",
        *(name.replace("_", " ").capitalize() for name in _COUNTS),
        "Reason",
    )
    work = {(point.scenario, point.name): point.work for point in findings.points}
    rates = {m.run: m for m in findings.run_measures if m.metric == work.get((m.scenario, m.point), "rate.received")}
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
                *(_class(audit, name) for name in _COUNTS),
                Cell(audit.reason or ""),
            )
        )
    notes = (
        "Every message is accounted for. Lost: confirmed and never received. Duplicated: received more than once by a "
        "subscription (marked: as redelivered). Recovered: not confirmed, yet received. Unexpected: never sent, or "
        "refused.",
        "Rate: what the point is about: messages received, or sent where nobody receives, or round trips.",
        "A run whose audit is not clean counts for no figure.",
    )
    title = f"Delivery audit, run by run, {MEASURED}"
    return Table(title, head, tuple(rows), notes, folded=len(rows) > formatting.LONG)


def operations_table(findings: Findings) -> Table | None:
    """What the traced applications did; None where no system traced any."""
    found = sorted(findings.operations, key=lambda one: -one.count)
    if not found:
        return None
    shown = sorted(found[:_OPERATIONS], key=lambda one: (one.scenario, one.point, one.system, one.application))
    head = (
        "Scenario", "System", "Application", "Operation", "Count", "Rate, 1/s", "Mean", "50\u00a0%", "99\u00a0%",
        "Longest", "Messages", "Bytes", "Failed",
    )  # fmt: skip
    notes = ["As the system recorded them in all valid runs; the time is that inside the system."]
    if len(found) > _OPERATIONS:
        notes.append(f"The {_OPERATIONS} with the highest counts of {len(found):,}.")
    rows = tuple(_operation(findings, one) for one in shown)
    title = f"What the traced applications did, {MEASURED}"
    return Table(title, head, rows, tuple(notes), folded=len(rows) > formatting.LONG)


def _operation(findings: Findings, one: OperationRow) -> Row:
    place = f"{one.scenario} ({one.point})" if one.point else one.scenario
    return row(
        Cell(place),
        own_cell(findings, one.system),
        Cell(one.application),
        Cell(one.operation),
        number(f"{one.count:,}"),
        absent("too few") if one.rate is None else number(formatting.number(one.rate)),
        *(
            absent("not recorded") if seconds is None else number(formatting.quantity(seconds, "s"))
            for seconds in (one.mean, one.p50, one.p99, one.max)
        ),
        *(
            absent("not recorded") if amount is None else number(f"{amount:,}")
            for amount in (one.messages, one.bytes, one.failed)
        ),
    )


def _run_rate(audit: AuditRow, found: RunMeasureRow | None) -> Cell:
    if audit.status != CLEAN:
        return absent(audit.status)
    return absent("not measured") if found is None else number(formatting.number(found.value))


def _class(audit: AuditRow, name: str) -> Cell:
    value: int | None = getattr(audit, name)
    if audit.status in (VOID, INCOMPLETE) or value is None:
        return absent(audit.status)
    return number(f"{value:,}")
