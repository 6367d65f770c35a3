"""The summary a person sees when a run ends: the matrix, the audit and the verdicts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import CLEAN, FAILED, INCOMPLETE, VOID
from mqlab.report.claims.verdicts import (
    ALL_SYSTEMS,
    HOLDS,
    INCONCLUSIVE,
    NOT_TESTABLE,
    REFUTED,
    VERDICTS,
    Verdict,
    judge,
)
from mqlab.report.data.findings import Findings
from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.exhibits.cells import needs_unit, printed, why_unknown
from mqlab.report.exhibits.headline import audit_tile, headline, verdict_tile, warnings
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED
from mqlab.study import METRICS, Point

STYLES: Final = {
    HOLDS: "green",
    REFUTED: "red",
    INCONCLUSIVE: "yellow",
    NOT_TESTABLE: "dim",
    CLEAN: "green",
    FAILED: "bold red",
    VOID: "red",
    INCOMPLETE: "yellow",
}
# A pipe has no width of its own: lines may be this long there before they are broken.
_PIPE_WIDTH: Final = 160
# A summary is read at a glance: of more rows and runs the report tells.
_ROWS: Final = 40
_SPOILED: Final = 20
# For an output that cannot show them.
_ASCII: Final = str.maketrans({"\u2265": ">=", "\u00b1": "+-", "\u00b5": "u", "\u00d7": "x"})

Say = Callable[..., Text]  # text and style; never read as console markup, whatever a name holds


def print_summary(folder: RunFolder, console: Console) -> None:
    """Prints to `console`; whether there are colours is the console's business (NO_COLOR, a pipe)."""
    findings = Findings.of(folder)
    verdicts = judge(findings)
    say = _speaker(console)
    audit, verdict = audit_tile(findings), verdict_tile(verdicts)
    with _wide_enough(console):
        console.print(say(f"{findings.study.title}, scale {findings.scale}", "bold"))
        for warning in warnings(findings):
            console.print(say(f"! {warning}", "yellow"))
        console.print(_matrix(findings, say))
        _more(console, say, len(findings.points) - _ROWS, "point")
        console.print(say(f"{audit.label}: {audit.figure}; {audit.note}", STYLES[audit.tone]))
        spoiled_runs = [found for found in findings.audits if found.status != CLEAN]
        for spoiled in spoiled_runs[:_SPOILED]:
            place = f"run {spoiled.run}, {spoiled.scenario} {spoiled.point}".rstrip()
            why = f"{spoiled.status}, {spoiled.reason or 'no reason given'}"
            console.print(say(f"  {place}, {spoiled.system}: {why}", STYLES.get(spoiled.status, "")))
        _more(console, say, len(spoiled_runs) - _SPOILED, "run")
        if verdicts:
            console.print(_verdicts(findings, verdicts, say))
            console.print(say(f"{verdict.label}: {verdict.figure}; {verdict.note}"))


def _more(console: Console, say: Say, count: int, what: str) -> None:
    if count > 0:
        console.print(say(f"and {formatting.count(count, f'more {what}')}: see the report"))


def _matrix(findings: Findings, say: Say) -> Table:
    """A row a point, so that a sweep of any length fits the width."""
    metric = headline(findings)
    marks = f"{formatting.PLUS_MINUS} 95 %, {formatting.LOWER_BOUND} client-bound"
    title = f"{formatting.metric(metric)}, {METRICS[metric].unit} ({marks})"
    table = Table(title=say(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(say("scenario"))
    for name, origin in subjects(findings):
        stamps = findings.stamps_of(name) if origin == MEASURED else ()
        head = "\n".join((name, origin, *(f"[{stamp}]" for stamp in stamps)))
        table.add_column(say(head, "bold" if origin == MEASURED else ""), justify="right")
    for point in findings.points[:_ROWS]:
        table.add_row(
            say(point.label), *(_figure(findings, subject, point, metric, say) for subject in subjects(findings))
        )
    return table


def _figure(findings: Findings, subject: Subject, point: Point, metric: str, say: Say) -> Text:
    system, origin = subject
    if origin == PUBLISHED:
        cell = printed(findings.study.find_published(system, point, metric), unit=needs_unit(metric))
        return say(f"{cell.text}, {cell.note}" if cell.note else cell.text)
    found = findings.measure(system, point, metric)
    if found is None:
        # The reason of each run stands below, with the audit.
        return say(f"{formatting.NOT_AVAILABLE}, {findings.absence(system, point, brief=True)}", "yellow")
    if why := why_unknown(metric, found.value, found.ci95):
        return say(f"{formatting.NOT_KNOWN}, {why}", "yellow")
    factor, name = formatting.suited(found.value, found.unit)
    unit = "" if name == found.unit else f" {name}"
    half = f" {formatting.PLUS_MINUS} {formatting.short(found.ci95 / factor)}" if found.ci95 else ""
    bound = f"{formatting.LOWER_BOUND} " if found.lower_bound else ""
    flag = f" {formatting.FLAG}" if findings.busy(system, point) else ""
    return say(f"{bound}{formatting.number(found.value / factor)}{half}{unit}{flag}", "bold")


def _verdicts(findings: Findings, verdicts: Sequence[Verdict], say: Say) -> Table:
    """The claims that something measured here can speak to; the report has the others, with the reason."""
    systems = [system.name for system in findings.systems]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("claim", PUBLISHED, *systems):
        table.add_column(say(head), ratio=None if head != "claim" else 1)
    for claim in findings.study.claims:
        said = [verdict for verdict in verdicts if verdict.claim == claim.id]
        ours = [v for v in said if v.basis == "measured"]
        if all(verdict.verdict == NOT_TESTABLE for verdict in ours):
            continue
        cells = [next((v.verdict for v in ours if v.subject in (name, ALL_SYSTEMS)), "") for name in systems]
        table.add_row(
            say(claim.says),
            say(_counted([v for v in said if v.basis == "published"])),
            *(say(cell, STYLES.get(cell, "")) for cell in cells),
        )
    return table


def _counted(verdicts: Sequence[Verdict]) -> str:
    """`holds`, or where the published systems differ `holds 3, refuted 1`."""
    counts = {word: sum(verdict.verdict == word for verdict in verdicts) for word in VERDICTS}
    found = {word: count for word, count in counts.items() if count}
    return ", ".join(found) if len(found) == 1 else ", ".join(f"{word} {count}" for word, count in found.items())


def _speaker(console: Console) -> Say:
    ascii_only = not console.encoding.lower().startswith("utf")

    def say(text: str, style: str = "") -> Text:
        if ascii_only:
            text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
        return Text(text, style)

    return say


@contextmanager
def _wide_enough(console: Console) -> Iterator[None]:
    """On a pipe, lines are not broken at the 80 columns that a console takes for granted there."""
    width = console.width
    if not console.is_terminal:
        console.width = max(width, _PIPE_WIDTH)
    try:
        yield
    finally:
        console.width = width
