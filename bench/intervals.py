"""Whether the intervals of points that the lab calls known contain the truth, by simulation: nothing is run.

A study of 24 points is repeated by the lab's own rounds until the 95 % interval of each rate is below 3 %. The runs
scatter by 3, 6 and 10 % (each point by a little more or less), and the true rate is known.

coverage_cv3, coverage_cv6, coverage_cv10  share of the intervals that contain the true rate, among the points called
    known. Between 0.93 and 0.97 is right: below it figures promise too much, above it runs are wasted.
decided_3, decided_12  share of wrong decisions, among comparisons with a limit that is the truth itself, after looks at
    1 and 3 runs, and at 1, 3, 6 and 12: at most 0.05.
coverage_pairs, coverage_pairs_shared, coverage_pairs_missing  share of the intervals of the ratio of two systems that
    contain the truth, after three rounds that share no noise, or half of it; and after three of one and six of the
    other. Between 0.93 and 0.97.
coverage_drift, coverage_drift_6  share of the intervals of the ratio of two points of one system that contain the
    truth, after three and six rounds on a machine whose rate drifts: points that a chain of claims compares take turns.
    Between 0.93 and 0.97.
decided_pairs_12  share of wrong decisions by such ratios, after looks at 3, 6 and 12 rounds: at most 0.05.
coverage_single, coverage_single_mixed  share of the intervals of the ratio of a point with a single run to another such
    point, and to one with three, in a study in which half of the points have a single run: points that are equally
    noisy, and such that differ. Between 0.93 and 0.97.
decided_single_12  share of wrong decisions by the ratios of two systems at points that are looked at after 1, 3, 6 and
    12 runs, while others have twelve: at most 0.05.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from math import exp, log, sqrt
from statistics import fmean

from _common import arguments, finish, level, say
from _lab import scenario
from mqlab.runner.rounds import Rounds, RunSeries
from mqlab.study.point import Repeat
from mqlab.study.repetition import RepetitionRule
from mqlab.study.rounds.paired import StudyRounds
from mqlab.study.shared_noise import RunNoise, moderated
from mqlab.study.statistics import LOOKS, look_count, t975
from mqlab.systems import system

POINTS = 24
TRUTH = 1000.0
RULE = RepetitionRule.parse("interval(rate) < 3%")
# How much the noise of the points differs: the deviation of its logarithm.
DIFFERENCE = 0.25
# The part of the noise of runs that all runs of a round have, on a machine with a noise that comes and goes.
SHARED = 0.5
SYSTEMS = ("a", "b")
# Points that a chain of claims compares, and so take turns.
CHAIN = 6
# The machine's rate drifts by 5 %, and forgets where it was within so many runs.
DRIFT = 0.05
MEMORY = 20


def main() -> None:
    options = arguments(__doc__ or "", "fewer studies")
    studies = options.rounds or (20 if options.quick else 400)
    chance = random.Random(5)
    results: dict[str, object] = {}
    for percent in (3, 6, 10):
        inside = [share for _ in range(studies) if (share := _share_of_known(chance, percent / 100)) is not None]
        say(f"{percent} %: {len(inside)} studies with known points")
        results[f"coverage_cv{percent}"] = level(inside) if inside else {"value": None}
    for most in (3, 12):
        wrong = [_share_of_wrong(chance, most) for _ in range(studies)]
        results[f"decided_{most}"] = level(wrong)
    for name, rounds, shared in (("", (3, 3), 0.0), ("_shared", (3, 3), SHARED), ("_missing", (6, 3), SHARED)):
        inside = [fmean(_contain_truth(_play_pairs(chance, rounds, shared))) for _ in range(studies)]
        results[f"coverage_pairs{name}"] = level(inside)
    for name, count in (("", 3), ("_6", 6)):
        results[f"coverage_drift{name}"] = level([_share_beside_drift(chance, count) for _ in range(studies)])
    results["decided_pairs_12"] = level([_share_of_wrong_pairs(chance) for _ in range(studies)])
    for name, difference in (("", 0.0), ("_mixed", DIFFERENCE)):
        results[f"coverage_single{name}"] = level([_share_of_single(chance, difference) for _ in range(studies)])
    results["decided_single_12"] = level([_share_of_wrong_single(chance) for _ in range(studies)])
    finish(**results)


def _share_of_known(chance: random.Random, deviation: float) -> float | None:
    """Of one study."""
    point = scenario("A", measure=1.0, repeat=Repeat(until=RULE, least=3, most=192))
    under_test = system("embedded")
    series = [RunSeries(point.model_copy(update={"name": f"{n}"}), under_test) for n in range(POINTS)]
    deviations = [deviation * exp(chance.gauss(0, DIFFERENCE)) for _ in series]
    _play(chance, series, deviations, [3] * POINTS)
    for targets in Rounds(series, None, 0.0).looks():
        _play(chance, series, deviations, [targets.get(one.key, 0) for one in series])
    noises = moderated([RunNoise.of(one.values) for one in series])
    inside = []
    for one, noise in zip(series, noises, strict=True):
        if noise is not None and RULE.is_met(one.values, noise):
            mean = fmean(one.values)
            inside.append(abs(mean - TRUTH) <= mean * noise.half_width(len(one.values), looks=1))
    return fmean(inside) if inside else None


def _play(chance: random.Random, series: list[RunSeries], deviations: list[float], targets: list[int]) -> None:
    for one, deviation, target in zip(series, deviations, targets, strict=True):
        while one.played < target:
            one.played = one.attempts = one.played + 1
            one.rates[one.played] = {"rate.work": TRUTH * (1 + deviation * chance.gauss(0, 1))}


def _share_of_wrong(chance: random.Random, most: int) -> float:
    """Points that are looked at until their interval excludes the true rate: how many ever do."""
    values: list[list[float]] = [[] for _ in range(POINTS)]
    wrong = [False] * POINTS
    for runs in [*(look for look in LOOKS if look < most), most]:
        for one in values:
            one += [TRUTH * (1 + 0.06 * chance.gauss(0, 1)) for _ in range(runs - len(one))]
        for index, noise in enumerate(moderated([RunNoise.of(one) for one in values])):
            if noise is not None:
                mean = fmean(values[index])
                wrong[index] |= abs(mean - TRUTH) > mean * noise.half_width(runs, look_count(most))
    return fmean(wrong)


class _SimulatedStudy:
    """Two systems with the same true rates at all points.

    `shared`: the part of the variance that the runs of a round have in common; `difference`: how much the noise of the
    points differs.
    """

    def __init__(self, chance: random.Random, shared: float, difference: float = DIFFERENCE) -> None:
        self._chance = chance
        self._shared = shared
        self._deviations = [0.06 * exp(chance.gauss(0, difference)) for _ in range(POINTS)]
        self._common: list[list[float]] = [[] for _ in range(POINTS)]
        self._runs: dict[tuple[str, int], dict[int, float]] = {}

    def play(self, rounds: Mapping[str, Sequence[int]], looks: int = 1) -> StudyRounds:
        """Go on up to so many rounds, by system and point."""
        study = StudyRounds(looks)
        for name, point in product(SYSTEMS, range(POINTS)):
            played, common = self._runs.setdefault((name, point), {}), self._common[point]
            for number in range(len(played), rounds[name][point]):
                common += [self._chance.gauss()] * (number == len(common))
                error = sqrt(self._shared) * common[number] + sqrt(1 - self._shared) * self._chance.gauss()
                played[number] = TRUTH * exp(self._deviations[point] * error)
            study.add(name, "rate.work", ("pairs", f"{point}"), point, played)
        return study


def _play_pairs(chance: random.Random, rounds: tuple[int, int], shared: float) -> StudyRounds:
    counts = {name: [count] * POINTS for name, count in zip(SYSTEMS, rounds, strict=True)}
    return _SimulatedStudy(chance, shared).play(counts)


def _is_inside(study: StudyRounds, one: tuple[str, int], other: tuple[str, int]) -> bool:
    """Whether the interval of the ratio of two systems or points, whose true rates are the same, contains 1."""
    first, second = (study.find(name, "rate.work", ("pairs", f"{point}")) for name, point in (one, other))
    assert first is not None
    assert second is not None
    error, degrees = study.error({first: 1.0, second: -1.0})
    ratio = fmean(first.values.values()) / fmean(second.values.values())
    return abs(log(ratio)) <= t975(degrees) * error


def _contain_truth(study: StudyRounds) -> list[bool]:
    return [_is_inside(study, (SYSTEMS[0], point), (SYSTEMS[1], point)) for point in range(POINTS)]


def _share_beside_drift(chance: random.Random, rounds: int) -> float:
    """Ratios of points that follow one another in a chain. Chains are played one after the other, as groups are."""
    study, drift = StudyRounds(looks=1), chance.gauss()
    forgets = exp(-1 / MEMORY)
    for start in range(0, POINTS, CHAIN):
        chain = range(start, start + CHAIN)
        runs: dict[int, dict[int, float]] = {point: {} for point in chain}
        places: dict[int, dict[int, int]] = {point: {} for point in chain}
        for number in range(rounds):
            for place, point in enumerate(chain if number % 2 else reversed(chain), CHAIN * number):
                drift = forgets * drift + sqrt(1 - forgets**2) * chance.gauss()
                runs[point][number] = TRUTH * exp(DRIFT * drift + 0.03 * chance.gauss())
                places[point][number] = place
        for point, played in runs.items():
            study.add(SYSTEMS[0], "rate.work", ("pairs", f"{point}"), start, played, places=places[point])
    compared = [(point, point + 1) for point in range(POINTS) if (point + 1) % CHAIN]
    return fmean(_is_inside(study, (SYSTEMS[0], one), (SYSTEMS[0], other)) for one, other in compared)


def _share_of_wrong_pairs(chance: random.Random) -> float:
    """Pairs that are looked at until their interval excludes the true ratio: how many ever do."""
    simulated, wrong = _SimulatedStudy(chance, SHARED), [False] * POINTS
    for rounds in (3, 6, 12):
        study = simulated.play(dict.fromkeys(SYSTEMS, [rounds] * POINTS), look_count(12))
        wrong = [before or not inside for before, inside in zip(wrong, _contain_truth(study), strict=True)]
    return fmean(wrong)


def _share_of_single(chance: random.Random, difference: float) -> float:
    """Ratios of points with a single run: to the next such point, and to one that has three."""
    rounds = [(1, 2, 1, 3)[point % 4] for point in range(POINTS)]
    study = _SimulatedStudy(chance, 0.0, difference).play(dict.fromkeys(SYSTEMS, rounds))
    places = [(name, point) for name in SYSTEMS for point in range(0, POINTS, 4)]
    pairs = [((name, point), (name, point + step)) for name, point in places for step in (2, 3)]
    return fmean(_is_inside(study, one, other) for one, other in pairs)


def _share_of_wrong_single(chance: random.Random) -> float:
    """Points that go on one after the other, from one run to twelve: those with one run are judged by the others."""
    simulated, wrong = _SimulatedStudy(chance, 0.0), [False] * (POINTS // 2)
    for runs in (1, 3, 6, 12):
        rounds = [12 if point % 2 else runs for point in range(POINTS)]
        study = simulated.play(dict.fromkeys(SYSTEMS, rounds), look_count(12))
        for place in range(POINTS // 2):
            wrong[place] |= not _is_inside(study, (SYSTEMS[0], 2 * place), (SYSTEMS[1], 2 * place))
    return fmean(wrong)


if __name__ == "__main__":
    main()
