"""The verdict on each claim: for every system that was run, and for every published one on its printed values."""

from dataclasses import dataclass
from typing import Final

from mqlab.report.claims.evaluation import MissingError, evaluate
from mqlab.report.claims.values import Basis, Measured, Published, Source
from mqlab.report.data.findings import Findings
from mqlab.report.render.formatting import listed
from mqlab.study import Claim
from mqlab.study.language.expression import Expression, parse

HOLDS: Final = "holds"
REFUTED: Final = "refuted"
INCONCLUSIVE: Final = "inconclusive"
NOT_TESTABLE: Final = "not testable here"
VERDICTS: Final = (HOLDS, REFUTED, INCONCLUSIVE, NOT_TESTABLE)
ALL_SYSTEMS: Final = "all systems"
# A claim over a grid may have a doubt for each of its points.
_DOUBTS: Final = 3


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
    subjects = source.systems() if expression.about_each else [ALL_SYSTEMS]
    return [_judge_one(claim, expression, source.about(subject)) for subject in subjects]


def _judge_one(claim: Claim, expression: Expression, source: Source) -> Verdict:
    absent = sorted(name for name in expression.systems() if source.known_as(name) is None)
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
    doubts = source.doubts(expression.references())
    more = f"; and {len(doubts) - _DOUBTS} more" if len(doubts) > _DOUBTS else ""
    return "; ".join(doubts[:_DOUBTS]) + more or "the 95 % intervals leave it open"


def _verdict(claim: Claim, source: Source, verdict: str, figures: str = "", reason: str = "") -> Verdict:
    return Verdict(claim.id, claim.says, claim.source, source.subject, source.basis, verdict, figures, reason)
