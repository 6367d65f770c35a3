"""Verdicts on the claims: for every system that was run, and for every published system on its published values."""

import math
from dataclasses import dataclass, replace
from typing import Final, TypedDict

from mqlab.report.claims.evaluation import evaluate
from mqlab.report.claims.interval import Interval
from mqlab.report.claims.missing import lacks_interval, missing_seconds
from mqlab.report.claims.values import Basis, ClaimValues, MeasuredValues, MissingValueError, PublishedValues
from mqlab.report.data.run_results import RunResults
from mqlab.report.data.travel import described
from mqlab.report.render.formatting import count, listed
from mqlab.study import Claim
from mqlab.study.language.expression import Expression, parse
from mqlab.study.travel import MESSAGE_BY_MESSAGE, PACKED

HOLDS: Final = "holds"
REFUTED: Final = "refuted"
INCONCLUSIVE: Final = "inconclusive"
# A setting of a stand-in brings about the effect: the claim cannot fail, whatever the figures are.
BY_CONSTRUCTION: Final = "by construction"
NOT_TESTABLE: Final = "not testable here"
VERDICTS: Final = (HOLDS, REFUTED, INCONCLUSIVE, BY_CONSTRUCTION, NOT_TESTABLE)
# The `kind` of a verdict that the figures decide.
TESTABLE: Final = "testable"
ALL_SYSTEMS: Final = "all systems"
# The most reasons that a verdict lists: a claim over a grid may have one for each point.
_MOST_REASONS: Final = 1
_NOT_KNOWN: Final = "how much longer is not known: no interval yet"
# Of runs that would decide a verdict: with more, the value is too close to what the claim needs.
_MOST_MINUTES: Final = 24 * 60


@dataclass(frozen=True)
class Verdict:
    """`words` say what was measured (or published) and what the claim needs; `figures` are its expressions and values.
    Both say how the messages travelled where that differs.

    `measured`, `low`, `high`, `needed` and its `limits` are those of the comparison that decided it. `reason` says why
    it is undecided, `missing_minutes` how much longer the runs of its points would have to take to decide it in four of
    five cases, if that is known; `missing` the same in words. `stands_for` says which systems stand for those that the
    claim names.
    """

    claim: str
    says: str
    source: str
    subject: str
    basis: Basis
    verdict: str
    figures: str = ""
    reason: str = ""
    words: str = ""
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    needed: str = ""
    limits: tuple[float, ...] = ()
    missing_minutes: float | None = None
    missing: str = ""
    stands_for: str = ""

    @property
    def kind(self) -> str:
        """Whether this run can decide the claim."""
        return self.verdict if self.verdict in (BY_CONSTRUCTION, NOT_TESTABLE) else TESTABLE

    @property
    def explanation(self) -> str:
        """The verdict in words: measured and needed, why it is undecided, and what is missing."""
        return "; ".join(part for part in (self.words, self.reason, self.missing, self.stands_for) if part)


def judge(results: RunResults) -> list[Verdict]:
    """Judge all claims in their order; for each, the published systems first and then those that were run."""
    return [
        verdict
        for claim in results.study.claims
        for source in (PublishedValues(results), MeasuredValues(results))
        for verdict in judge_on(claim, source)
    ]


def judge_on(claim: Claim, source: ClaimValues) -> list[Verdict]:
    if claim.check is None:
        return [_verdict(claim, source.for_subject(ALL_SYSTEMS), NOT_TESTABLE, reason=claim.not_testable or "")]
    expression = parse(claim.check)
    subjects = source.systems() if expression.about_each else [ALL_SYSTEMS]
    return [judge_subject(claim, expression, source.for_subject(subject)) for subject in subjects]


def judge_subject(claim: Claim, expression: Expression, source: ClaimValues) -> Verdict:
    absent = sorted(name for name in expression.systems() if source.resolve_system(name) is None)
    if absent:
        reason = f"it names {listed(absent)}, which {'was' if len(absent) == 1 else 'were'} not {source.basis}"
        successors = [names[0] for name in absent if (names := source.results.study.successors.get(name))]
        if successors and source.basis == "measured":
            reason += f": add {' '.join(f'--system {name}' for name in successors)}"
        return _verdict(claim, source, NOT_TESTABLE, reason=reason)
    if claim.cause and not source.names_products(expression):
        return _verdict(claim, source, NOT_TESTABLE, reason=f"its cause has no counterpart here: {claim.cause}")
    try:
        result = evaluate(expression, source)
    except MissingValueError as missing:
        return _verdict(claim, source, NOT_TESTABLE, reason=str(missing))
    ways = source.ways_of_travel(expression.references())
    packed = sum(way.startswith(PACKED) for way in ways)
    if 0 < packed < len(ways):
        return _verdict(claim, source, NOT_TESTABLE, reason=f"{PACKED} is not compared with {MESSAGE_BY_MESSAGE}")
    imposed = source.given_settings(expression, claim.imposed_by)
    if imposed:
        word, reason = BY_CONSTRUCTION, f"{listed(imposed)} brings about the effect"
    elif result.truth is None:
        word, reason = INCONCLUSIVE, _why_undecided(expression, source)
    else:
        word, reason = HOLDS if result.truth else REFUTED, ""
    travelled = (f"messages travelled {described(ways)}",) if len(ways) > 1 else ()
    deciding = result.deciding
    seconds = missing_seconds(expression, source, result) if word == INCONCLUSIVE else None
    minutes = None if seconds is None else seconds / 60
    is_unknown = word == INCONCLUSIVE and seconds is None and lacks_interval(expression, source, result)
    said = [f"{source.basis} {one.found}, needed {one.needed}" for one in result.comparisons]
    return replace(
        _verdict(claim, source, word, "; ".join((*result.figures, *travelled)), reason),
        words="; ".join((*said, *travelled)),
        needed=deciding.needed,
        limits=deciding.limits,
        missing_minutes=minutes,
        missing=_NOT_KNOWN if is_unknown else missing_text(minutes, source.results),
        stands_for="; ".join(source.representatives(expression)),
        **_ends(deciding.value),
    )  # fmt: skip


def _why_undecided(expression: Expression, source: ClaimValues) -> str:
    reasons = source.uncertainties(expression.references())
    more = f"; and {len(reasons) - _MOST_REASONS} more" if len(reasons) > _MOST_REASONS else ""
    return "; ".join(reasons[:_MOST_REASONS]) + more or "the 95 % intervals leave it open"


class _Ends(TypedDict):
    measured: float | None
    low: float | None
    high: float | None


def _ends(value: Interval | None) -> _Ends:
    """An end that is not known is None."""
    if value is None:
        return {"measured": None, "low": None, "high": None}
    low, high = (end if math.isfinite(end) else None for end in (value.low, value.high))
    return {"measured": value.value, "low": low, "high": high}


def missing_text(minutes: float | None, results: RunResults) -> str:
    """So many more minutes in words, with the command of a run that has them; "" if they are not known."""
    if minutes is None:
        return ""
    if minutes > _MOST_MINUTES:
        return "more runs would hardly decide it"
    command = results.meta.get("again") or f"mqlab run {results.study.id}"
    # The new run begins with nothing: it needs the minutes of this one too.
    total = math.ceil(max(1.0, minutes) + (results.meta.get("minutes") or 0))
    return f"about {count(max(1, math.ceil(minutes)), 'more minute')}: {command} --minutes {total}"


def _verdict(claim: Claim, source: ClaimValues, verdict: str, figures: str = "", reason: str = "") -> Verdict:
    return Verdict(claim.id, claim.says, claim.source, source.subject, source.basis, verdict, figures, reason)
