"""The summary on the terminal at the end of a run: the matrix, the audit and the verdicts."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import CLEAN, FAILED, INCOMPLETE, VOID
from mqlab.report.claims import verdicts
from mqlab.report.claims.gates import GateVerdict, judge_gates
from mqlab.report.claims.tables import GATE_TONES
from mqlab.report.data.pairing import Subject, subjects
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.self_comparison import false_differences
from mqlab.report.exhibits.answer import answer
from mqlab.report.exhibits.cells import needs_unit, printed, travel_notes, why_hidden
from mqlab.report.exhibits.headline import audit_tile, headline, verdict_tile, warnings
from mqlab.report.exhibits.run_tables import fault_lines, unrecovered_lines
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, PUBLISHED
from mqlab.study import METRICS, Point
from mqlab.study.metric import is_throughput

STYLES: Final = {
    verdicts.HOLDS: "green",
    verdicts.REFUTED: "red",
    verdicts.INCONCLUSIVE: "yellow",
    verdicts.BY_CONSTRUCTION: "dim",
    verdicts.NOT_TESTABLE: "dim",
    CLEAN: "green",
    FAILED: "bold red",
    VOID: "red",
    INCOMPLETE: "yellow",
}
# The width of lines on a pipe, which has none of its own.
_PIPE_WIDTH: Final = 160
# The most rows and runs that the summary shows; the report has all.
_ROWS: Final = 40
_REJECTED: Final = 20
# Replacements for an output without Unicode.
_ASCII: Final = str.maketrans({"\u2265": ">=", "\u00b1": "+-", "\u00b5": "u", "\u00d7": "x"})

Say = Callable[..., Text]  # text and style; names are never read as console markup


def print_summary(folder: RunFolder, console: Console) -> None:
    """Print the summary to `console`, which decides about colours (NO_COLOR, a pipe)."""
    results = RunResults.of(folder)
    judged = verdicts.judge(results)
    say = styled_text(console)
    audit, verdict = audit_tile(results), verdict_tile(judged)
    with _wide_enough(console):
        console.print(say(answer(results, judged), "bold"))
        console.print(say(f"{results.study.title}, scale {results.scale}", "bold"))
        for warning in warnings(results):
            console.print(say(f"! {warning}", "yellow"))
        console.print(_matrix(results, say))
        _more(console, say, len(results.study_points) - _ROWS, "point")
        for note in travel_notes(results, results.study_points):
            console.print(say(note))
        console.print(say(f"{audit.label}: {audit.figure}; {audit.note}", STYLES[audit.tone]))
        for sentence in fault_lines(results)[:_ROWS]:
            console.print(say(sentence))
        _more(console, say, len(results.faults) - _ROWS, "fault")
        for sentence in unrecovered_lines(results)[:_ROWS]:
            console.print(say(sentence, "red"))
        rejected_runs = [run_audit for run_audit in results.audits if run_audit.status != CLEAN]
        for rejected in rejected_runs[:_REJECTED]:
            place = f"run {rejected.run}, {rejected.scenario} {rejected.point}".rstrip()
            why = f"{rejected.status}, {rejected.reason or 'no reason given'}"
            console.print(say(f"  {place}, {rejected.system}: {why}", STYLES.get(rejected.status, "")))
        _more(console, say, len(rejected_runs) - _REJECTED, "run")
        if found := false_differences(results):
            console.print(say(str(found)))
        if judged:
            for line in _verdicts(results, judged, say):
                console.print(line)
            console.print(say(f"{verdict.label}: {verdict.figure}; {verdict.note}"))
    print_gates(judge_gates(results, results.study.goals), console)


def print_gates(verdicts: Sequence[GateVerdict], console: Console) -> None:
    say = styled_text(console)
    for verdict in verdicts:
        text = f"{verdict.kind} {verdict.gate.text}, {verdict.subject}: {verdict.outcome}; {verdict.words}"
        console.print(say(text, STYLES[GATE_TONES[verdict.outcome]]), soft_wrap=True)


def _more(console: Console, say: Say, count: int, noun: str) -> None:
    if count > 0:
        console.print(say(f"and {formatting.count(count, f'more {noun}')}: see the report"))


def _matrix(results: RunResults, say: Say) -> Table:
    """One row for each point, so that a long sweep fits the width."""
    metric = headline(results)
    bound = "bound by the lab" if is_throughput(metric) else "at least"
    marks = f"{formatting.PLUS_MINUS} 95 %, {formatting.LOWER_BOUND} {bound}"
    title = f"{formatting.metric(metric)}, {METRICS[metric].unit} ({marks})"
    table = Table(title=say(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(say("scenario"), overflow="fold")
    for name, origin in subjects(results):
        stamps = results.stamps_of(name) if origin == MEASURED else results.published_stamps
        head = "\n".join((name, origin, *(f"[{stamp}]" for stamp in stamps)))
        table.add_column(say(head, "bold" if origin == MEASURED else ""), justify="right", overflow="fold")
    for point in results.study_points[:_ROWS]:
        table.add_row(
            say(point.label), *(_figure(results, subject, point, metric, say) for subject in subjects(results))
        )
    return table


def _figure(results: RunResults, subject: Subject, point: Point, metric: str, say: Say) -> Text:
    system, origin = subject
    if origin == PUBLISHED:
        cell = printed(results.study.find_published(system, point, metric), unit=needs_unit(metric))
        return say(f"{cell.text}, {cell.note}" if cell.note else cell.text)
    measure = results.measure(system, point, metric)
    if measure is None:
        # The audit below has the reason of each run.
        return say(f"{formatting.NOT_AVAILABLE}, {results.absence(system, point, True, metric)}", "yellow")
    if why := why_hidden(measure):
        return say(f"{formatting.NOT_KNOWN}, {why}", "yellow")
    factor, name = formatting.scaled_unit(measure.value, measure.unit)
    unit = "" if name == measure.unit else f" {name}"
    half = f" {formatting.PLUS_MINUS} {formatting.short(measure.ci95 / factor)}" if measure.ci95 else ""
    bound = f"{formatting.LOWER_BOUND} " if measure.lower_bound else ""
    return say(f"{bound}{formatting.number(measure.value / factor)}{half}{unit}{results.flags(system, point)}", "bold")


def _verdicts(results: RunResults, judged: Sequence[verdicts.Verdict], say: Say) -> Iterator[Text]:
    """The claims that the measured values can decide, with each verdict in words; the report has the others."""
    for claim in results.study.claims:
        given = [verdict for verdict in judged if verdict.claim == claim.id]
        measured = [v for v in given if v.basis == "measured"]
        if all(verdict.verdict == verdicts.NOT_TESTABLE for verdict in measured):
            continue
        yield say(claim.says, "bold")
        yield say(f"  {PUBLISHED}: {_counted([v for v in given if v.basis == 'published'])}")
        for verdict in measured:
            words = f"  {verdict.subject}, {MEASURED}: {verdict.verdict}; {verdict.explanation}"
            yield say(words, STYLES.get(verdict.verdict, ""))


def _counted(judged: Sequence[verdicts.Verdict]) -> str:
    """`holds`, or `holds 3, refuted 1` where the published systems differ."""
    counts = {word: sum(verdict.verdict == word for verdict in judged) for word in verdicts.VERDICTS}
    present = {word: count for word, count in counts.items() if count}
    return ", ".join(present) if len(present) == 1 else ", ".join(f"{word} {count}" for word, count in present.items())


def styled_text(console: Console) -> Say:
    ascii_only = not console.encoding.lower().startswith("utf")

    def say(text: str, style: str = "") -> Text:
        if ascii_only:
            text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
        return Text(text, style)

    return say


@contextmanager
def _wide_enough(console: Console) -> Iterator[None]:
    """Widen the lines on a pipe, where a console would break them at 80 columns."""
    width = console.width
    if not console.is_terminal:
        console.width = max(width, _PIPE_WIDTH)
    try:
        yield
    finally:
        console.width = width
