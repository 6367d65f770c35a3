"""The capacity search: which rates to try next, and what the tries have shown. It plays no runs.

A run at a rate holds or misses the goal. Runs of one rate disagree near the limit, so a rate is decided by its lead:
held less missed runs. It is confirmed CONFIRMED ahead, and rejected REJECTED behind. The search brackets the limit
with single runs and then repeats the two rates of the bracket until one is confirmed and the other rejected.

The bracket is where the runs of all rates agree best. A rate that was rejected in a bad time is played again when
greater ones hold the goal: it does not drag the limit down. Every step follows from all runs so far alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Final, Literal, NamedTuple

from mqlab.study.point import Point

CONFIRMED: Final = 3
REJECTED: Final = -3
# A rate that is not confirmed by then does not hold the goal reliably.
_MOST_RUNS_OF_A_RATE: Final = 9
# A run that was disturbed and missed the goal says nothing; after so many, it counts all the same.
_MOST_UNKNOWN: Final = 2
# Rates that are tried in one step inside the bracket: the pipeline takes longer to measure a step than a run.
_INSIDE: Final = 3
# The first rates, as shares of the first guess; and how the search leaves rates that all hold, or all miss.
_FIRST: Final = (0.25, 0.5, 0.75, 1.0)
_UP: Final = (1.4, 2.0)
_DOWN: Final = (1 / 4, 1 / 16)

Outcome = Literal["held", "missed", "unknown"]
Status = Literal["found", "below", "above", "undecided"]


class RunRequest(NamedTuple):
    """So many more runs of a point on a system."""

    system: str
    point: Point
    runs: int


@dataclass(frozen=True)
class Trial:
    """One run at a planned rate; `reason`: why it missed the goal, or why that is unknown."""

    rate: float
    outcome: Outcome
    reason: str = ""


@dataclass
class RateTrials:
    """The runs of one rate."""

    rate: float
    held: int = 0
    missed: int = 0
    unknown: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        if trial.outcome == "held":
            self.held += 1
            return
        self.reasons.append(trial.reason)
        is_unknown = trial.outcome == "unknown" and self.unknown < _MOST_UNKNOWN
        self.unknown += is_unknown
        self.missed += not is_unknown

    @property
    def lead(self) -> int:
        return self.held - self.missed

    @property
    def weight(self) -> int:
        """How much the runs speak for the rate, or against it (below 0). A spent rate that is not confirmed does."""
        return self.lead if self.is_confirmed or not self.is_spent else min(self.lead, -1)

    @property
    def is_confirmed(self) -> bool:
        return self.lead >= CONFIRMED

    @property
    def is_rejected(self) -> bool:
        return self.lead <= REJECTED or (self.is_spent and not self.is_confirmed)

    @property
    def is_decided(self) -> bool:
        return self.is_confirmed or self.is_rejected

    @property
    def holds(self) -> bool:
        return self.lead > 0 and not self.is_rejected

    @property
    def misses(self) -> bool:
        return self.lead < 0 or self.is_rejected

    @property
    def is_spent(self) -> bool:
        return self.held + self.missed >= _MOST_RUNS_OF_A_RATE


@dataclass(frozen=True)
class Capacity:
    """The result of a search.

    found: `rate` is confirmed, and a rate just above it rejected; the limit lies between `low`, below which every run
    held the goal, and `high`, above which every run missed it. below: the goal is missed even at `rate`, the lowest
    one. above: it holds at `rate`, the highest one. undecided: `rate` is the highest confirmed one, if any.
    """

    status: Status
    rate: float | None
    low: float | None = None
    high: float | None = None
    above: RateTrials | None = None  # the rejected rate
    reason: str = ""


@dataclass(frozen=True)
class CapacitySearch:
    """`guess`: where to begin, such as the peak of a closed loop. `tolerance`: the width of a decided bracket."""

    guess: float
    floor: float
    ceiling: float
    tolerance: float
    most_runs: int = 80

    def next_runs(self, trials: Sequence[Trial]) -> dict[float, int]:
        """How many more runs of which rates are needed; {}: the search is over."""
        rates = by_rate(trials)
        if len(trials) >= self.most_runs:
            return {}
        if not rates:
            return dict.fromkeys(sorted({self._within(share * self.guess) for share in _FIRST}), 1)
        low, high = _bracket(rates)
        if repeated := _contradicted(rates, low, high) or _unsettled(rates, low, high):
            return repeated
        if high is None:
            return self._outwards(rates[max(rates)], _UP, self.ceiling)
        if low is None:
            return self._outwards(rates[min(rates)], _DOWN, self.floor)
        if inside := self._inside(low, high):
            return dict.fromkeys(inside, 1)
        return _confirmations(rates[low], rates[high])

    def result(self, trials: Sequence[Trial]) -> Capacity:
        """The result so far; final when `next_runs` returns nothing."""
        rates = by_rate(trials)
        low, high = _bracket(rates)
        lowest, highest = rates.get(self.floor), rates.get(self.ceiling)
        if lowest is not None and high == self.floor and lowest.is_rejected:
            return Capacity("below", self.floor, above=lowest, reason=_last_reason(lowest))
        if highest is not None and high is None and highest.is_confirmed:
            return Capacity("above", self.ceiling)
        if low is not None and high is not None and self._is_decided(rates[low], rates[high]):
            bounds = _all_held_up_to(rates, low), _all_missed_from(rates, high)
            return Capacity("found", low, *bounds, rates[high], _last_reason(rates[high]))
        confirmed = [rate for rate, runs in rates.items() if runs.is_confirmed and (high is None or rate < high)]
        reason = f"{len(trials)} runs did not decide it"
        return Capacity("undecided", max(confirmed, default=None), reason=reason)

    def _is_decided(self, low: RateTrials, high: RateTrials) -> bool:
        return low.is_confirmed and high.is_rejected and not self._inside(low.rate, high.rate)

    def _outwards(self, last: RateTrials, factors: Sequence[float], end: float) -> dict[float, int]:
        """The rates beyond the last one; at the end of the range, the runs that decide it."""
        if last.rate == end:
            return {} if last.is_decided else {end: _missing(last)}
        return dict.fromkeys(sorted(self._within(factor * last.rate) for factor in factors), 1)

    def _inside(self, low: float, high: float) -> list[float]:
        """New rates between two rates that are further apart than the tolerance, at equal ratios."""
        if high / low <= 1 + self.tolerance:
            return []
        number = next((n for n in range(1, _INSIDE) if (high / low) ** (1 / (n + 1)) <= 1 + self.tolerance), _INSIDE)
        rates = {self._within(low * (high / low) ** (n / (number + 1))) for n in range(1, number + 1)}
        return sorted(rate for rate in rates if low < rate < high)

    def _within(self, rate: float) -> float:
        """The rate with three digits that a person can read, inside the range."""
        return min(self.ceiling, max(self.floor, float(f"{rate:.3g}")))


def by_rate(trials: Sequence[Trial]) -> dict[float, RateTrials]:
    """The trials of each rate, in the order of the rates."""
    rates: dict[float, RateTrials] = {}
    for trial in trials:
        rates.setdefault(trial.rate, RateTrials(trial.rate)).add(trial)
    return dict(sorted(rates.items()))


def _bracket(rates: Mapping[float, RateTrials]) -> tuple[float | None, float | None]:
    """The rates beside the limit that agrees best with all runs: one that holds the goal, and the next that misses it.

    Of limits that agree equally well, the lowest.
    """
    ordered = [*rates.values()]
    # Of limits with 0, 1, 2, ... rates below. The rates above count the other way round: that doubles all differences.
    agreements = [*accumulate((runs.weight for runs in ordered), initial=0)]
    limit = agreements.index(max(agreements))
    below, above = ordered[:limit], ordered[limit:]
    low = max((runs.rate for runs in below if runs.holds), default=None)
    return low, min((runs.rate for runs in above if runs.misses), default=None)


def _contradicted(rates: Mapping[float, RateTrials], low: float | None, high: float | None) -> dict[float, int]:
    """The rates that miss the goal below one that holds it, or hold it above one that misses it, once more."""
    below = [runs for runs in rates.values() if low is not None and runs.rate < low and runs.misses]
    above = [runs for runs in rates.values() if high is not None and runs.rate > high and runs.holds]
    return {runs.rate: 1 for runs in below + above if not runs.is_spent}


def _unsettled(rates: Mapping[float, RateTrials], low: float | None, high: float | None) -> dict[float, int]:
    """The rates inside the bracket that neither hold nor miss the goal, once more."""
    inside = [runs for rate, runs in rates.items() if (low or 0.0) < rate < (high or inf)]
    return {runs.rate: 1 for runs in inside if not (runs.holds or runs.misses)}


def _confirmations(low: RateTrials, high: RateTrials) -> dict[float, int]:
    return {runs.rate: _missing(runs) for runs in (low, high) if not runs.is_decided}


def _missing(runs: RateTrials) -> int:
    """The least number of further runs that may decide the rate."""
    return CONFIRMED - runs.lead if runs.holds else runs.lead - REJECTED


def _all_held_up_to(rates: Mapping[float, RateTrials], low: float) -> float:
    missed = min((rate for rate, runs in rates.items() if runs.missed), default=low)
    return max((rate for rate in rates if rate <= low and rate < missed), default=min(rates))


def _all_missed_from(rates: Mapping[float, RateTrials], high: float) -> float:
    held = max((rate for rate, runs in rates.items() if runs.held), default=high)
    return min((rate for rate in rates if rate >= high and rate > held), default=max(rates))


def _last_reason(runs: RateTrials) -> str:
    return runs.reasons[-1] if runs.reasons else ""
