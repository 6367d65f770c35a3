"""Tables of single runs: their audits, and the operations that the system traced."""

from collections.abc import Sequence
from typing import Final

from mqlab.json_values import JsonObject
from mqlab.pipeline import schema
from mqlab.pipeline.kernels.count_keys import SLOTS_A_SECOND
from mqlab.pipeline.kernels.trend import FEWEST_SLOTS, is_tested
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.cells import absent, own_cell
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Cell, Row, Table, number, row
from mqlab.study.steadiness import MAX_GAP, is_judged

_COUNTS: Final = ("sent", "expected", *schema.DELIVERY_CLASSES)
# The accounts of a run with faults, and their heads.
_ACCOUNTS: Final = {
    "expected": "Confirmed",
    "delivered": "Delivered",
    "lost": "Lost",
    "resent": "Sent again",
    "duplicated_resent": "Duplicated by that",
    "duplicated_marked": "Duplicated, marked",
    "duplicated": "Duplicated, unmarked",
    "out_of_order": "Out of order",
}
# Those of a line on the terminal. The words about unmarked duplicates stand at its end.
_COUNTED: Final = {
    "lost": "lost",
    "resent": "sent again",
    "duplicated_marked": "marked",
    "out_of_order": "out of order",
    "duplicated": "duplicated",
}
# The most rows of the table of operations; those with the highest counts are shown.
_OPERATIONS: Final = 120


def audit_table(results: RunResults) -> Table:
    """The audit of each run. A void or incomplete run has its reason and no counts."""
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
    work = {(point.scenario, point.name): point.work for point in results.points}
    rates = {m.run: m for m in results.run_measures if m.metric == work.get((m.scenario, m.point), "rate.received")}
    rows = []
    for audit in results.audits:
        rate = _run_rate(audit, rates.get(audit.run))
        rows.append(
            row(
                number(f"{audit.run}"),
                Cell(_place(audit.scenario, audit.point)),
                number(f"{audit.repetition}"),
                own_cell(results, audit.system),
                Cell(audit.status, tone=audit.status),
                rate,
                *(_class(audit, name) for name in _COUNTS),
                Cell(audit.reason or ""),
            )
        )
    notes = [
        "The audit counts every message. Lost: confirmed and never received. Resent: sent again, because no "
        "confirmation came. Duplicated: received more often than sent by a subscription (resent: more than once, and "
        "at most as often as sent; marked: as redelivered). Recovered: not confirmed, yet received. Unexpected: never "
        "sent, or refused.",
        "Rate: messages received; messages sent where no consumer receives; or round trips.",
        "A run whose audit is not clean counts for no figure.",
    ]
    if extended := results.meta.get("extended"):
        notes.append(
            "Some runs were played again with longer phases: "
            f"{formatting.listed([*dict.fromkeys(map(_extension, extended))])}."
        )
    notes += switching_notes(results.meta.get("switched") or ())
    title = f"Delivery audit, run by run, {MEASURED}"
    return Table(title, head, tuple(rows), tuple(notes), folded=len(rows) > formatting.LONG)


def faults_table(results: RunResults) -> Table | None:
    """Every fault of every complete run, with the accounts of its run; None if there was no fault."""
    if not results.faults:
        return None
    head = (
        "Scenario", "System", "Run", "Fault", "Without service", "To recover", "Messages on their way", "50\u00a0%",
        "99\u00a0%", "Longest", *_ACCOUNTS.values(),
    )  # fmt: skip
    notes = (
        "Without service: the longest time in which no message arrived; if none came any more, until the end of the "
        f"drain phase or longer ({formatting.LOWER_BOUND}). To recover: from the start of the fault until the system "
        "served again, the fault was undone, and no more messages were on their way than at most before it. A point of "
        "which a run did not recover has no time to recover. The latencies are those of the messages that were on "
        "their way meanwhile, from their planned time.",
        "Of the whole run, whatever its audit found: confirmed messages, those delivered and lost, those that their "
        "producers sent again because no confirmation came, those received more than once, and those out of order. "
        "The lab records every delivery and adds none: an unmarked duplicate is a message that the system delivered "
        "again without saying so, which many systems do after a crash, since they write down no deliveries. A run with "
        "unmarked duplicates, losses or messages out of order has no rate.",
    )
    rows = tuple(_fault(results, effect) for effect in results.faults)
    table_notes = (*unrecovered_lines(results), *notes)
    return Table(f"Faults, {MEASURED}", head, rows, table_notes, folded=len(rows) > formatting.LONG)


def unrecovered_lines(results: RunResults) -> list[str]:
    """A sentence for each point and system of which a run did not recover from a fault."""
    sentences = []
    for point in (point for point in results.points if point.faults):
        for system in results.systems:
            unrecovered, used = results.never_recovered(system.name, point)
            if unrecovered:
                runs = formatting.count(used, "run")
                sentences.append(f"{point.label}, {system.name}: {unrecovered} of {runs} never recovered.")
    return sentences


def fault_lines(results: RunResults) -> list[str]:
    """A sentence for each fault."""
    audits, lines = {audit.run: audit for audit in results.audits}, []
    for effect in results.faults:
        audit = audits[effect.run]
        counts = ", ".join(f"{getattr(audit, name) or 0:,} {label}" for name, label in _COUNTED.items())
        lines.append(
            f"{_place(effect.scenario, effect.point)}, {effect.system}: {effect.fault}: {_service(effect)}; "
            f"{audit.expected or 0:,} confirmed, {counts}"
            f"{': the system delivered them again without the redelivered mark' if audit.duplicated else ''}"
        )
    return lines


def _service(effect: schema.FaultEffectRow) -> str:
    """How long it was away, and when it had made up for that."""
    if effect.outage is None:
        return "never served again"
    away = f"{formatting.quantity(effect.outage, 's')} without service"
    if effect.served is False:
        return f"never served again, at least {away}"
    back = (
        "not recovered" if effect.recovery is None else f"recovered after {formatting.quantity(effect.recovery, 's')}"
    )
    return f"{away}, {back}"


def _fault(results: RunResults, effect: schema.FaultEffectRow) -> Row:
    (audit,) = (audit for audit in results.audits if audit.run == effect.run)
    times = (effect.latency_p50, effect.latency_p99, effect.latency_max)
    return row(
        Cell(_place(effect.scenario, effect.point)),
        own_cell(results, effect.system),
        number(f"{effect.run}"),
        Cell(effect.fault),
        _outage(effect),
        _time(effect.recovery, "not in this run"),
        absent("none") if effect.messages is None else number(f"{effect.messages:,}"),
        *(_time(time, "none") for time in times),
        # Once for each run.
        *(_class(audit, name) if effect.number == 1 else Cell("") for name in _ACCOUNTS),
    )


def _outage(effect: schema.FaultEffectRow) -> Cell:
    if effect.outage is None or effect.served is not False:
        return _time(effect.outage, "no arrival")
    return number(f"{formatting.LOWER_BOUND} {formatting.quantity(effect.outage, 's')}", "never served again")


def _time(seconds: float | None, why_none: str) -> Cell:
    return absent(why_none) if seconds is None else number(formatting.quantity(seconds, "s"))


def noise_table(results: RunResults) -> Table:
    """Whether each run was steady, and the other work of the machine in it."""
    head = (
        "Run", "Scenario", "Repetition", "System", "Used", "Other virtual machines", "Other processes",
        "Waits for a processor", "Waits for memory", "Waits for the disk", "Clock", "Flagged",
    )  # fmt: skip
    rows = tuple(_noise(results, run) for run in results.noise)
    disturbed, unsteady = (sum(bool(getattr(run, why)) for run in results.noise) for why in ("disturbed", "unsteady"))
    watched = sum(run.steal is not None for run in results.noise)
    state = results.meta.get("noise") or {}
    notes = [
        f"{disturbed:,} of {watched:,} watched runs were disturbed: other virtual machines and other processes took "
        f"more than {state.get('max_taken_share', 0):.0%} of the processors{_limits_of_processes(state)}. "
        "Such a run is repeated later."
        if watched
        else "The runs were not watched.",
        f"{unsteady:,} of {len(rows):,} runs were not steady. A run is steady if arrivals are copies x sends within "
        f"{MAX_GAP:.0%}, the backlog does not grow, the warm-up was longer than the 99 % latency, and the rate has no "
        "trend. A run that is not is played again, once, with longer phases. A fixed amount of work, a load of one "
        "side and a consumer with a rate of its own are not judged: they are not steady by design. "
        + _tested_for_trends(results),
        "A flagged run, disturbed or not steady, counts for no figure, unless its point has no other; then the figure "
        f"is marked {formatting.FLAGGED} and decides no verdict.",
        "Shares of all processors, and of the time in which some process waited, the lab's own included.",
    ]
    title = f"Noise and steadiness, run by run, {MEASURED}"
    return Table(title, head, rows, tuple(notes), folded=len(rows) > formatting.LONG)


def _limits_of_processes(state: JsonObject) -> str:
    """Those for other processes alone, of runs that were made with them."""
    if "max_foreign_cores" not in state:
        return ""
    return (
        f", other processes more than {state['max_foreign_cores']:g} of one, or, where messages were persistent, the "
        f"disk worked for them more than {state['max_foreign_disk_share']:.0%} of the time"
    )


def _tested_for_trends(results: RunResults) -> str:
    """Short runs say nothing of two of the rules."""
    judged = [point for point in results.points if is_judged(point)]
    tested = sum(is_tested(point.phases.warmup, point.phases.measure) for point in judged)
    if tested == len(judged):
        return ""
    seconds = FEWEST_SLOTS / SLOTS_A_SECOND
    return (
        f"The measure phase is planned long enough (about {seconds:g} s) to test whether the backlog grows and the "
        f"rate has a trend at {tested:,} of {len(judged):,} judged points; the runs of the others were judged by the "
        "other two rules only, unless they were played again with longer phases."
    )


def _noise(results: RunResults, run: schema.NoiseRow) -> Row:
    shares = (run.steal, run.foreign, run.cpu_wait, run.memory_wait, run.disk_wait)
    return row(
        number(f"{run.run}"),
        Cell(_place(run.scenario, run.point)),
        number(f"{run.repetition}"),
        own_cell(results, run.system),
        Cell("yes" if run.used else "no"),
        *(absent("not known") if share is None else number(f"{share:.1%}") for share in shares),
        absent("not known") if run.clock_hz is None else number(f"{run.clock_hz / 1e9:.2f} GHz"),
        Cell(run.flagged),
    )


def operations_table(results: RunResults) -> Table | None:
    """The operations of the traced applications; None where no system traced any."""
    operations = sorted(results.operations, key=lambda operation: -operation.count)
    if not operations:
        return None
    shown = sorted(
        operations[:_OPERATIONS],
        key=lambda operation: (operation.scenario, operation.point, operation.system, operation.application),
    )
    head = (
        "Scenario", "System", "Application", "Operation", "Count", "Rate, 1/s", "Mean", "50\u00a0%", "99\u00a0%",
        "Longest", "Messages", "Bytes", "Failed",
    )  # fmt: skip
    notes = ["The system recorded them in all valid runs; the times are those inside the system."]
    if len(operations) > _OPERATIONS:
        notes.append(f"The {_OPERATIONS} with the highest counts of {len(operations):,}.")
    rows = tuple(_operation(results, operation) for operation in shown)
    title = f"Operations of the traced applications, {MEASURED}"
    return Table(title, head, rows, tuple(notes), folded=len(rows) > formatting.LONG)


def _operation(results: RunResults, operation: schema.OperationSummaryRow) -> Row:
    return row(
        Cell(_place(operation.scenario, operation.point)),
        own_cell(results, operation.system),
        Cell(operation.application),
        Cell(operation.operation),
        number(f"{operation.count:,}"),
        absent("too few") if operation.rate is None else number(formatting.number(operation.rate)),
        *(
            absent("not recorded") if seconds is None else number(formatting.quantity(seconds, "s"))
            for seconds in (operation.mean, operation.p50, operation.p99, operation.max)
        ),
        *(
            absent("not recorded") if amount is None else number(f"{amount:,}")
            for amount in (operation.messages, operation.bytes, operation.failed)
        ),
    )


def _place(scenario: str, point: str) -> str:
    return f"{scenario} ({point})" if point else scenario


def switching_notes(entries: Sequence[JsonObject]) -> list[str]:
    """A sentence for each system that the lab switched within runs, in place of separate runs."""
    scenarios: dict[tuple[str, float], list[str]] = {}
    for entry in entries:
        scenarios.setdefault((entry["system"], entry["slice_s"]), []).append(entry["scenario"])
    return [
        f"In {formatting.listed(names)} the lab switched {system} between the settings of points every {slice_s:g} s "
        "of a run: these points share the run and its audit, and have rates, latencies and CPU of their own slices, "
        "where a published study had a run for each."
        for (system, slice_s), names in scenarios.items()
    ]


def _extension(entry: JsonObject) -> str:
    place, seconds = _place(entry["scenario"], entry["point"]), formatting.quantity(entry["measure"], "s")
    return f"{place} of {entry['system']}, {seconds} ({entry.get('reason') or 'nothing was counted'})"


def _run_rate(audit: schema.AuditRow, measure: schema.RunMeasureRow | None) -> Cell:
    if audit.status != schema.CLEAN:
        return absent(audit.status)
    return absent("not measured") if measure is None else number(formatting.number(measure.value))


def _class(audit: schema.AuditRow, name: str) -> Cell:
    value: int | None = getattr(audit, name)
    if audit.status in (schema.VOID, schema.INCOMPLETE) or value is None:
        return absent(audit.status)
    return number(f"{value:,}")
