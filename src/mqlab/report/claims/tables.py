"""Tables of the verdicts: one row for each claim, the figures behind every verdict, and one row for each gate."""

from collections.abc import Sequence
from typing import Final

from mqlab.report.claims.gates import FAILED, PASSED, GateVerdict
from mqlab.report.claims.verdicts import ALL_SYSTEMS, BY_CONSTRUCTION, NOT_TESTABLE, REFUTED, VERDICTS, Verdict
from mqlab.report.data.run_results import RunResults, stamped
from mqlab.report.exhibits.cells import system_cell
from mqlab.report.render.content import MEASURED, PUBLISHED, Cell, Table, row
from mqlab.report.render.formatting import NOT_KNOWN, listed

# The style of each outcome of a gate.
GATE_TONES: Final = {PASSED: "holds", FAILED: "refuted", NOT_KNOWN: "inconclusive"}


def verdict_table(results: RunResults, verdicts: Sequence[Verdict]) -> Table:
    """The verdicts of each claim: on the published values, then on each system that was measured."""
    systems = [system.name for system in results.systems]
    head = (
        "Claim",
        f"On the {PUBLISHED} figures",
        *(f"{stamped(name, results.stamps_of(name))}, {MEASURED}" for name in systems),
    )
    rows = []
    for claim in results.study.claims:
        given = [verdict for verdict in verdicts if verdict.claim == claim.id]
        published = [verdict for verdict in given if verdict.basis == "published"]
        ours = [_measured_cell(given, name, first=name == systems[0]) for name in systems]
        # Where the study's own figures speak against it, or words were read one way of several, the note says so.
        read = (Cell("", claim.note),) if claim.note else ()
        rows.append(row(Cell(claim.says, claim.source, below=read), _published_cell(published, results), *ours))
    note = (
        "Holds and refuted are decided for the whole 95 % interval of every figure involved; anything else is "
        "inconclusive. By construction: a setting of a stand-in brings about the effect, so the claim could not fail. "
        "Claims compare shapes and ratios within one machine, never our rates with theirs."
    )
    return Table("Each claim, on the published figures and on ours", head, tuple(rows), (note,))


def figures_table(results: RunResults, verdicts: Sequence[Verdict]) -> Table:
    claims = {claim.id: claim for claim in results.study.claims}
    rows = tuple(
        row(
            Cell(verdict.claim),
            _subject(results, verdict),
            Cell(verdict.verdict, tone=tone(verdict.verdict)),
            Cell(verdict.figures or verdict.reason, verdict.reason if verdict.figures else ""),
            Cell(claims[verdict.claim].check or "none", claims[verdict.claim].note or ""),
            origin=PUBLISHED if verdict.basis == "published" else MEASURED,
        )
        for verdict in verdicts
    )
    head = ("Claim", "System", "Verdict", "Figures", "Check, and how a loose word was read")
    note = "Computed in this report by the claim's expression, from the measures or from the published values."
    return Table("The figures behind each verdict", head, rows, (note,), folded=True)


def gate_table(verdicts: Sequence[GateVerdict]) -> Table:
    rows = tuple(
        row(
            Cell(verdict.gate.text, verdict.kind),
            Cell(verdict.subject),
            Cell(verdict.outcome, tone=GATE_TONES[verdict.outcome]),
            Cell(verdict.words),
        )
        for verdict in verdicts
    )
    note = (
        "A goal must hold at every point, and a condition to fail at none, for the whole 95 % interval. A gate "
        "that the intervals leave open is not known, and never passes."
    )
    return Table("Goals and gates", ("Condition", "System", "Outcome", "Figure"), rows, (note,))


def tone(verdict: str) -> str:
    return "untestable" if verdict in (BY_CONSTRUCTION, NOT_TESTABLE) else verdict


def _subject(results: RunResults, verdict: Verdict) -> Cell:
    if verdict.basis == "published":
        return system_cell(results, verdict.subject, PUBLISHED)
    if verdict.subject == ALL_SYSTEMS:
        names = [system.name for system in results.systems]
        return Cell(ALL_SYSTEMS, MEASURED, "measured", results.stamps_of(*names))
    return system_cell(results, verdict.subject, MEASURED)


def _published_cell(verdicts: Sequence[Verdict], results: RunResults) -> Cell:
    """One line for each verdict, with its systems."""
    lines = []
    for word in VERDICTS:
        given = [verdict for verdict in verdicts if verdict.verdict == word]
        if given:
            lines.append(Cell(word, _subjects(given, len(results.study.systems_published)), tone(word)))
    if verdicts and all(verdict.verdict == REFUTED for verdict in verdicts):
        lines.append(Cell("", "The study's own figures contradict it."))
    return _stacked(lines)


def _subjects(given: Sequence[Verdict], published: int) -> str:
    if given[0].subject == ALL_SYSTEMS:
        # The only verdict: its figures have room here; a reason stands in the columns of the measured systems.
        return given[0].words
    return f"for all {published}" if len(given) == published > 1 else f"for {listed([v.subject for v in given])}"


def _measured_cell(verdicts: Sequence[Verdict], system: str, first: bool) -> Cell:
    """A verdict on all systems together has its figures in the first column only."""
    given = [v for v in verdicts if v.basis == "measured" and v.subject in (system, ALL_SYSTEMS)]
    lines = []
    for verdict in given:
        note = verdict.explanation if first or verdict.subject != ALL_SYSTEMS else ""
        lines.append(Cell(verdict.verdict, note, tone(verdict.verdict)))
    return _stacked(lines)


def _stacked(lines: Sequence[Cell]) -> Cell:
    if not lines:
        return Cell("")
    first = lines[0]
    return Cell(first.text, first.note, first.tone, below=tuple(lines[1:]))
