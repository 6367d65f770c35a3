"""The verdicts as tables: one row a claim, and the figures behind every verdict."""

from collections.abc import Sequence

from mqlab.report.claims.verdicts import ALL_SYSTEMS, NOT_TESTABLE, REFUTED, VERDICTS, Verdict
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.exhibits.cells import system_cell
from mqlab.report.render.content import MEASURED, PUBLISHED, Cell, Table, row
from mqlab.report.render.formatting import listed


def verdict_table(findings: Findings, verdicts: Sequence[Verdict]) -> Table:
    """What the published figures say of a claim, then what each system measured here says of it."""
    systems = [system.name for system in findings.systems]
    head = (
        "Claim",
        f"On the {PUBLISHED} figures",
        *(f"{stamped(name, findings.stamps_of(name))}, {MEASURED}" for name in systems),
    )
    rows = []
    for claim in findings.study.claims:
        said = [verdict for verdict in verdicts if verdict.claim == claim.id]
        published = [verdict for verdict in said if verdict.basis == "published"]
        ours = [_measured_cell(said, name, first=name == systems[0]) for name in systems]
        # Where the study's own figures speak against it, or words were read one way of several, the note says so.
        read = (Cell("", claim.note),) if claim.note else ()
        rows.append(row(Cell(claim.says, claim.source, below=read), _published_cell(published, findings), *ours))
    note = (
        "Holds and refuted are decided for the whole 95 % interval of every figure involved; anything else is "
        "inconclusive. Claims compare shapes and ratios within one machine, never our rates with theirs."
    )
    return Table("Each claim, on the published figures and on ours", head, tuple(rows), (note,))


def figures_table(findings: Findings, verdicts: Sequence[Verdict]) -> Table:
    claims = {claim.id: claim for claim in findings.study.claims}
    rows = tuple(
        row(
            Cell(verdict.claim),
            _subject(findings, verdict),
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


def tone(verdict: str) -> str:
    return "untestable" if verdict == NOT_TESTABLE else verdict


def _subject(findings: Findings, verdict: Verdict) -> Cell:
    if verdict.basis == "published":
        return system_cell(findings, verdict.subject, PUBLISHED)
    if verdict.subject == ALL_SYSTEMS:
        names = [system.name for system in findings.systems]
        return Cell(ALL_SYSTEMS, MEASURED, "measured", findings.stamps_of(*names))
    return system_cell(findings, verdict.subject, MEASURED)


def _published_cell(verdicts: Sequence[Verdict], findings: Findings) -> Cell:
    """One line a verdict, with the systems it is given for."""
    lines = []
    for word in VERDICTS:
        given = [verdict for verdict in verdicts if verdict.verdict == word]
        if given:
            lines.append(Cell(word, _for_whom(given, len(findings.study.systems_published)), tone(word)))
    if verdicts and all(verdict.verdict == REFUTED for verdict in verdicts):
        lines.append(Cell("", "The study's own figures contradict it."))
    return _stacked(lines)


def _for_whom(given: Sequence[Verdict], published: int) -> str:
    if given[0].subject == ALL_SYSTEMS:
        # One verdict has room for its figures; a reason why nothing was judged stands beside our systems.
        return given[0].figures
    return f"for all {published}" if len(given) == published > 1 else f"for {listed([v.subject for v in given])}"


def _measured_cell(verdicts: Sequence[Verdict], system: str, first: bool) -> Cell:
    """A verdict on all systems together has its figures in the first column only."""
    given = [v for v in verdicts if v.basis == "measured" and v.subject in (system, ALL_SYSTEMS)]
    lines = []
    for verdict in given:
        note = "; ".join(part for part in (verdict.figures, verdict.reason) if part)
        lines.append(
            Cell(verdict.verdict, note if first or verdict.subject != ALL_SYSTEMS else "", tone(verdict.verdict))
        )
    return _stacked(lines)


def _stacked(lines: Sequence[Cell]) -> Cell:
    if not lines:
        return Cell("")
    first = lines[0]
    return Cell(first.text, first.note, first.tone, below=tuple(lines[1:]))
