"""The random error of a figure that is computed from several measures, by the rounds that their runs share.

Runs that take turns follow one another, and what the machine does at that time changes all of them. So each round gives
the figure one deviation: of a ratio that is its log-ratio less their mean, and whatever changed both sides cancels. The
spread of these deviations is the error (a paired t).

A few rounds know little of their own spread. So it is moderated (study/shared_noise.py) by what is expected of it: from
the noise of all points of each system, less the part that the runs of a round have in common: one correlation for all
pairs of the same kind (Smyth, Michaud and Scott, 2005). A single run has no spread, and the error that is expected.
docs/decisions/0024-paired-rounds.md: why.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from math import floor, sqrt
from statistics import fmean
from typing import Final

from mqlab.study.shared_noise import RunNoise, SharedNoise, share
from mqlab.study.statistics import look_quantile, t975

# Fewer common rounds have no spread.
FEWEST_ROUNDS: Final = 2
# With fewer independent rounds, of all pairs of a kind, their correlation may be great by chance. None is assumed then.
FEWEST_OF_KIND: Final = 8
# Runs that share their noise: a system, a metric, and whether their points are paced.
_Series = tuple[str, str, bool]
# The runs of two measures: their series, and whether they are those of one point.
_PairKind = tuple[_Series, _Series, bool]


@dataclass(frozen=True, eq=False)
class MeasuredRuns:
    """The values of a metric at a point on a system, by round. Points with equal `turns` take turns.

    `places`: that of each run in the order in which all were played.
    """

    system: str
    metric: str
    point: tuple[str, str]
    turns: Hashable
    values: Mapping[int, float]
    is_paced: bool
    study: "StudyRounds"
    places: Mapping[int, int]

    @property
    def series(self) -> _Series:
        return self.system, self.metric, self.is_paced

    @cached_property
    def noise(self) -> RunNoise | None:
        return RunNoise.of([*self.values.values()])

    @cached_property
    def deviations(self) -> dict[int, float]:
        """Those of the runs from their mean, relative to it."""
        mean = fmean(self.values.values())
        return {number: value / mean - 1 for number, value in self.values.items()}

    def common_rounds(self, other: "MeasuredRuns") -> list[int]:
        """Those in which both were played before either went on.

        A point that went on alone, and another that followed later, have rounds of one number that share no time.
        """
        if self is other or self.turns != other.turns:
            return [*self.values] if self is other else []
        played = sorted((runs.places[number], number) for runs in (self, other) for number in runs.values)
        common = {number for (_, number), (_, following) in pairwise(played) if number == following}
        return [number for number in self.values if number in common]

    def distance(self, other: "MeasuredRuns") -> int:
        """The binary digits of how many runs later the second of a round was played."""
        rounds = self.common_rounds(other)
        return round(fmean(abs(self.places[number] - other.places[number]) for number in rounds)).bit_length()

    def is_paired(self, other: "MeasuredRuns") -> bool:
        return len(self.common_rounds(other)) >= FEWEST_ROUNDS

    def covariance(self, other: "MeasuredRuns") -> float:
        """That of the two means, by their common rounds. `degrees`: deviations from a mean are too small."""
        common, ours, theirs = self.common_rounds(other), len(self.values), len(other.values)
        count = len(common)
        total = sum(self.deviations[number] * other.deviations[number] for number in common)
        degrees = count * (1 - 1 / ours - 1 / theirs + count / (ours * theirs))
        return total / degrees * count / (ours * theirs)


class StudyRounds:
    """The runs of a study, for the errors of what is computed from them. `looks`: study/statistics.py."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._runs: dict[_Series, dict[tuple[str, str], MeasuredRuns]] = {}
        self._found: dict[tuple[str, str, tuple[str, str]], MeasuredRuns] = {}
        self._parts: dict[tuple[MeasuredRuns, tuple[int, ...]], MeasuredRuns] = {}
        self._shared: dict[_Series, SharedNoise | None] = {}
        self._correlations: dict[_PairKind, dict[int, float]] = {}

    def add(
        self,
        system: str,
        metric: str,
        point: tuple[str, str],
        turns: Hashable,
        runs: Mapping[int, float],
        *,
        is_paced: bool = False,
        places: Mapping[int, int] | None = None,
    ) -> None:
        """Runs that are all equal, or zero, tell nothing. `places`: None if all points were played round by round."""
        if (len(runs) == 1 or min(runs.values()) < max(runs.values())) and max(runs.values()) > 0:
            in_order = {number: number for number in runs}
            added = MeasuredRuns(system, metric, point, turns, runs, is_paced, self, places or in_order)
            self._runs.setdefault(added.series, {})[point] = self._found[system, metric, point] = added

    def find(self, system: str, metric: str, point: tuple[str, str]) -> MeasuredRuns | None:
        """None where nothing tells the noise of the runs: all are equal, or it is a single one among few points."""
        found = self._found.get((system, metric, point))
        return found if found and (found.noise or self._shared_noise(found.series)) else None

    def find_pair(
        self, system: str, metric: str, first: tuple[str, str], second: tuple[str, str]
    ) -> tuple[MeasuredRuns, MeasuredRuns] | None:
        """Two points by their common rounds alone; None where these are too few."""
        one, other = self.find(system, metric, first), self.find(system, metric, second)
        if one is None or other is None or not one.is_paired(other):
            return None
        rounds = one.common_rounds(other)
        return self._within(one, rounds), self._within(other, rounds)

    def _within(self, runs: MeasuredRuns, rounds: Sequence[int]) -> MeasuredRuns:
        """The same runs, of some rounds: one object for equal rounds."""
        if len(rounds) == len(runs.values):
            return runs
        values = {number: runs.values[number] for number in rounds}
        return self._parts.setdefault((runs, tuple(rounds)), replace(runs, values=values))

    def error(self, weights: Mapping[MeasuredRuns, float]) -> tuple[float, int]:
        """The standard error of a figure, and its degrees of freedom; for a t975 that stands for each of the looks.

        `weights`: the change of the figure for a relative change of each mean. The errors of runs that are not paired
        add up as squares, with the degrees of freedom by Satterthwaite's formula. The noise of all points counts once.
        """
        noises, own, shared = [], 0, 0
        for group in self._groups(weights):
            noise = self._noise({runs: weights[runs] for runs in group})
            noises.append(noise)
            rounds = min(len(runs.values) for runs in group)
            own, shared = own + rounds - 1, max(shared, noise.degrees_of_freedom - rounds + 1)
        variance = sum(noise.variance for noise in noises)
        spread = sum(noise.variance**2 / noise.degrees_of_freedom for noise in noises)
        # Errors so small that their powers vanish are none.
        degrees = floor(variance**2 / spread * (1 + 1e-9)) if spread else 1
        degrees = max(1, min(degrees, own + shared))
        return sqrt(variance) * look_quantile(degrees, self._looks) / t975(degrees), degrees

    def _groups(self, weights: Mapping[MeasuredRuns, float]) -> list[list[MeasuredRuns]]:
        """Those that are paired; and metrics of one single run, if other points tell how they go together."""
        of_run: dict[Hashable, list[MeasuredRuns]] = {}
        for runs in weights:
            if len(runs.values) == 1:
                of_run.setdefault((runs.system, runs.point, *runs.values), []).append(runs)
        together = [
            group
            for group in of_run.values()
            if len(group) > 1 and self._expected_of_metrics({runs: weights[runs] for runs in group})
        ]
        grouped = {runs for group in together for runs in group}
        return [*together, *paired_groups(runs for runs in weights if runs not in grouped)]

    def _noise(self, weights: Mapping[MeasuredRuns, float]) -> RunNoise:
        """The variance of a figure of paired runs."""
        are_of_one_run = len(weights) > 1 and len({(runs.system, runs.point) for runs in weights}) == 1
        expected = self._expected_of_metrics(weights) if are_of_one_run else self._expected(weights)
        if any(runs.noise is None for runs in weights):
            assert expected is not None  # of all single runs that are found, and of their metrics together
            return expected.moderate(None)
        own = _own_noise(weights)
        return expected.moderate(own) if expected else own

    def _expected_of_metrics(self, weights: Mapping[MeasuredRuns, float]) -> SharedNoise | None:
        """Of metrics of the same runs, which go together at some points more than at others: by all these figures."""
        first, *_ = weights
        noises = []
        for point in self._runs[first.series]:
            runs = [self._runs[one.series].get(point) for one in weights]
            known = [one for one in runs if one is not None]
            if len(known) == len(weights) and len(paired_groups(known)) == 1:
                own = _own_noise(dict(zip(known, weights.values(), strict=True)))
                noises.append(RunNoise(own.variance * len(known[0].values), own.degrees_of_freedom))
        shared = share(noises)
        return shared and shared._replace(variance=shared.variance / len(first.values))

    def _expected(self, weights: Mapping[MeasuredRuns, float]) -> SharedNoise | None:
        """The variance of a figure by the noise of all points; None where too few points tell it."""
        shared = {runs: noise for runs in weights if (noise := self._shared_noise(runs.series)) is not None}
        if len(shared) < len(weights):
            return None
        errors = {runs: weights[runs] * sqrt(noise.variance / len(runs.values)) for runs, noise in shared.items()}
        variance = sum(
            errors[one] * errors[other] * self._correlation_of_means(one, other)
            for one, other in product(shared, shared)
        )
        spread = sum(error**4 / shared[runs].worth for runs, error in errors.items())
        worth = floor(sum(error**2 for error in errors.values()) ** 2 / spread)
        totals = {runs.series: noise.total for runs, noise in shared.items()}
        return SharedNoise(max(0.0, variance), worth, sum(totals.values()))

    def _shared_noise(self, series: _Series) -> SharedNoise | None:
        if series not in self._shared:
            noises = [runs.noise for runs in self._runs[series].values()]
            self._shared[series] = share([noise for noise in noises if noise])
        return self._shared[series]

    def _correlation_of_means(self, one: MeasuredRuns, other: MeasuredRuns) -> float:
        if one is other:
            return 1.0
        common = len(one.common_rounds(other))
        return self.correlation(one, other) * common / sqrt(len(one.values) * len(other.values))

    def correlation(self, one: MeasuredRuns, other: MeasuredRuns) -> float:
        """That of two runs of a round, by all pairs of their kind that are as far apart; 1 for the same runs."""
        if one.series == other.series and one.point == other.point:
            return 1.0
        first, second = sorted((one.series, other.series))
        kind = first, second, one.point == other.point
        if kind not in self._correlations:
            self._correlations[kind] = self._consensus(*kind)
        return self._correlations[kind].get(one.distance(other), 0.0) if one.is_paired(other) else 0.0

    def _consensus(self, first: _Series, second: _Series, of_one_point: bool) -> dict[int, float]:
        """By distance, over all pairs, each measured by the noise of its points."""
        products: dict[int, float] = {}
        squares: dict[int, tuple[float, float]] = {}
        rounds: dict[int, set[tuple[Hashable, int]]] = {}
        for one, other in product(self._runs[first].values(), self._runs[second].values()):
            if one is other or (one.point == other.point) != of_one_point or not one.is_paired(other):
                continue
            common, far = one.common_rounds(other), one.distance(other)
            ours, theirs = (self._standardised(runs, common) for runs in (one, other))
            products[far] = products.get(far, 0.0) + sum(a * b for a, b in zip(ours, theirs, strict=True))
            own, others = squares.get(far, (0.0, 0.0))
            squares[far] = own + sum(value**2 for value in ours), others + sum(value**2 for value in theirs)
            rounds.setdefault(far, set()).update((one.turns, number) for number in common)
        independent = {far: len(found) - len({turns for turns, _ in found}) for far, found in rounds.items()}
        known = [far for far, count in independent.items() if count >= FEWEST_OF_KIND and all(squares[far])]
        return {far: products[far] / sqrt(squares[far][0] * squares[far][1]) for far in known}

    def _standardised(self, runs: MeasuredRuns, rounds: Sequence[int]) -> list[float]:
        """The deviations of these rounds from their mean, over that of a run by the noise of all points."""
        shared = self._shared_noise(runs.series)
        noise = shared.moderate(runs.noise) if shared else runs.noise
        assert noise is not None  # of all runs that are paired
        deviation = sqrt(noise.variance)
        values = [runs.deviations[number] / deviation for number in rounds]
        mean = fmean(values)
        return [value - mean for value in values]


def _own_noise(weights: Mapping[MeasuredRuns, float]) -> RunNoise:
    """The variance of a figure by its own rounds."""
    pairs = product(weights.items(), weights.items())
    variance = sum(a * b * one.covariance(other) for (one, a), (other, b) in pairs)
    return RunNoise(max(0.0, variance), min(len(runs.values) for runs in weights) - 1)


def paired_groups(runs: Iterable[MeasuredRuns]) -> list[list[MeasuredRuns]]:
    """Groups in which all are paired with all."""
    groups: list[list[MeasuredRuns]] = []
    for one in runs:
        for group in groups:
            if all(one.is_paired(other) for other in group):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups
