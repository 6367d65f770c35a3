"""The verdict on each claim: for every system that was run, and for every published one on its printed values."""

import ast
from dataclasses import dataclass
from typing import Final

from mqlab.report.expression import MissingError, evaluate
from mqlab.report.findings import Findings
from mqlab.report.values import Basis, Measured, Published, Source
from mqlab.report.words import listed
from mqlab.study import Claim
from mqlab.study.expression import OVER_SYSTEMS, Expression, called, parse

HOLDS: Final = "holds"
REFUTED: Final = "refuted"
INCONCLUSIVE: Final = "inconclusive"
NOT_TESTABLE: Final = "not testable here"
VERDICTS: Final = (HOLDS, REFUTED, INCONCLUSIVE, NOT_TESTABLE)
ALL_SYSTEMS: Final = "all systems"


@dataclass(frozen=True)
class Verdict:
    """`figures` are the numbers behind it, in words; `reason` says what kept it from being decided."""

    claim: str
    says: str
    source: str
    subject: str
    basis: Basis
    verdict: str
    figures: str = ""
    reason: str = ""


def judge(findings: Findings) -> list[Verdict]:
    """In the order of the claims; for each, the published systems first and then those that were run."""
    return [
        verdict
        for claim in findings.study.claims
        for source in (Published(findings), Measured(findings))
        for verdict in _judge_on(claim, source)
    ]


def _judge_on(claim: Claim, source: Source) -> list[Verdict]:
    if claim.check is None:
        return [_verdict(claim, source.about(ALL_SYSTEMS), NOT_TESTABLE, reason=claim.not_testable or "")]
    expression = parse(claim.check)
    subjects = [ALL_SYSTEMS] if _only_over_systems(expression) else source.systems()
    return [_judge_one(claim, expression, source.about(subject)) for subject in subjects]


def _judge_one(claim: Claim, expression: Expression, source: Source) -> Verdict:
    absent = sorted(expression.systems() - set(source.systems()))
    if absent:
        reason = f"it names {listed(absent)}, which {'was' if len(absent) == 1 else 'were'} not {source.basis}"
        return _verdict(claim, source, NOT_TESTABLE, reason=reason)
    try:
        outcome = evaluate(expression, source)
    except MissingError as missing:
        return _verdict(claim, source, NOT_TESTABLE, reason=str(missing))
    figures = "; ".join(outcome.figures)
    if outcome.truth is None:
        return _verdict(claim, source, INCONCLUSIVE, figures, _why_open(expression, source))
    return _verdict(claim, source, HOLDS if outcome.truth else REFUTED, figures)


def _why_open(expression: Expression, source: Source) -> str:
    names = source.systems() if source.subject == ALL_SYSTEMS else [source.subject]
    doubts = dict.fromkeys(source.doubt(name, wanted) for wanted in expression.references() for name in names)
    return "; ".join(doubt for doubt in doubts if doubt) or "the 95 % intervals leave it open"


def _verdict(claim: Claim, source: Source, verdict: str, figures: str = "", reason: str = "") -> Verdict:
    return Verdict(claim.id, claim.says, claim.source, source.subject, source.basis, verdict, figures, reason)


def _only_over_systems(expression: Expression) -> bool:
    """Whether no part speaks of a single system, so that one verdict serves them all."""
    nodes = list(ast.walk(expression.tree))
    calls = [node for node in nodes if isinstance(node, ast.Call) and called(node) in OVER_SYSTEMS]
    inside = {id(argument) for call in calls for argument in call.args}
    return all(id(node) in inside for node in nodes if isinstance(node, ast.Subscript))
