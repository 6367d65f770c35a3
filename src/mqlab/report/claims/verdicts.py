"""Verdicts on the claims: for every system that was run, and for every published system on its published values."""

from dataclasses import dataclass
from typing import Final

from mqlab.report.claims.evaluation import evaluate
from mqlab.report.claims.values import Basis, ClaimValues, MeasuredValues, MissingValueError, PublishedValues
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import listed
from mqlab.study import Claim
from mqlab.study.language.expression import Expression, parse

HOLDS: Final = "holds"
REFUTED: Final = "refuted"
INCONCLUSIVE: Final = "inconclusive"
NOT_TESTABLE: Final = "not testable here"
VERDICTS: Final = (HOLDS, REFUTED, INCONCLUSIVE, NOT_TESTABLE)
ALL_SYSTEMS: Final = "all systems"
# The most reasons that a verdict lists: a claim over a grid may have one for each point.
_MOST_REASONS: Final = 3


@dataclass(frozen=True)
class Verdict:
    """`figures` are the values that decided it, as text; `reason` says why it is undecided."""

    claim: str
    says: str
    source: str
    subject: str
    basis: Basis
    verdict: str
    figures: str = ""
    reason: str = ""


def judge(results: RunResults) -> list[Verdict]:
    """Judge all claims in their order; for each, the published systems first and then those that were run."""
    return [
        verdict
        for claim in results.study.claims
        for source in (PublishedValues(results), MeasuredValues(results))
        for verdict in _judge_on(claim, source)
    ]


def _judge_on(claim: Claim, source: ClaimValues) -> list[Verdict]:
    if claim.check is None:
        return [_verdict(claim, source.for_subject(ALL_SYSTEMS), NOT_TESTABLE, reason=claim.not_testable or "")]
    expression = parse(claim.check)
    subjects = source.systems() if expression.about_each else [ALL_SYSTEMS]
    return [_judge_subject(claim, expression, source.for_subject(subject)) for subject in subjects]


def _judge_subject(claim: Claim, expression: Expression, source: ClaimValues) -> Verdict:
    absent = sorted(name for name in expression.systems() if source.resolve_system(name) is None)
    if absent:
        reason = f"it names {listed(absent)}, which {'was' if len(absent) == 1 else 'were'} not {source.basis}"
        return _verdict(claim, source, NOT_TESTABLE, reason=reason)
    try:
        result = evaluate(expression, source)
    except MissingValueError as missing:
        return _verdict(claim, source, NOT_TESTABLE, reason=str(missing))
    figures = "; ".join(result.figures)
    if result.truth is None:
        return _verdict(claim, source, INCONCLUSIVE, figures, _why_undecided(expression, source))
    return _verdict(claim, source, HOLDS if result.truth else REFUTED, figures)


def _why_undecided(expression: Expression, source: ClaimValues) -> str:
    reasons = source.uncertainties(expression.references())
    more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return "; ".join(reasons[:_MOST_REASONS]) + more or "the 95 % intervals leave it open"


def _verdict(claim: Claim, source: ClaimValues, verdict: str, figures: str = "", reason: str = "") -> Verdict:
    return Verdict(claim.id, claim.says, claim.source, source.subject, source.basis, verdict, figures, reason)
