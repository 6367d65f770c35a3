"""Figures of measures whose runs took turns: their intervals, by the rounds that they share."""

import math
import random
from statistics import fmean, stdev

import pytest

from mqlab.study.rounds.paired import MeasuredRuns, StudyRounds, paired_groups
from mqlab.study.shared_noise import RunNoise, share
from mqlab.study.statistics import look_quantile, t975

SYSTEMS = ("first", "second")


def make_study(
    chance: random.Random, points: int, rounds: tuple[int, int], correlation: float, looks: int = 1
) -> StudyRounds:
    """Two systems whose true rates are 1000 at every point. `rounds`: how many each of them has."""
    study = StudyRounds(looks)
    for point in range(points):
        common = {number: chance.gauss() for number in range(max(rounds))}
        deviation = 0.06 * math.exp(chance.gauss(0, 0.25))
        for system, count in zip(SYSTEMS, rounds, strict=True):
            noise = {n: correlation**0.5 * common[n] + (1 - correlation) ** 0.5 * chance.gauss() for n in range(count)}
            runs = {number: 1000 * math.exp(deviation * value) for number, value in noise.items()}
            study.add(system, "rate", ("grid", f"{point}"), point, runs)
    return study


def runs_of(study: StudyRounds, system: str, point: int = 0) -> MeasuredRuns:
    found = study.find(system, "rate", ("grid", f"{point}"))
    assert found is not None
    return found


def pair(study: StudyRounds, point: int = 0) -> tuple[MeasuredRuns, MeasuredRuns]:
    return runs_of(study, "first", point), runs_of(study, "second", point)


def log_ratio(first: MeasuredRuns, second: MeasuredRuns) -> float:
    return math.log(fmean(first.values.values()) / fmean(second.values.values()))


def is_inside(study: StudyRounds, first: MeasuredRuns, second: MeasuredRuns) -> bool:
    error, degrees = study.error({first: 1.0, second: -1.0})
    return abs(log_ratio(first, second)) <= t975(degrees) * error


def test_a_few_points_have_a_paired_t_of_their_rounds() -> None:
    study = make_study(random.Random(1), 1, (5, 5), 0.5, looks=3)
    first, second = pair(study)
    ours, theirs = fmean(first.values.values()), fmean(second.values.values())
    differences = [first.values[n] / ours - second.values[n] / theirs for n in range(5)]
    error, degrees = study.error({first: 1.0, second: -1.0})
    assert degrees == 4
    assert t975(4) * error == pytest.approx(look_quantile(4, 3) * stdev(differences) / math.sqrt(5))


def test_rounds_that_were_not_played_together_are_not_common() -> None:
    """The second point followed when the first had gone on: rounds 3 and 4 have only their numbers in common."""
    study = StudyRounds(1)
    places = {"first": {1: 1, 2: 4, 3: 5, 4: 6}, "second": {1: 2, 2: 3, 3: 9, 4: 10}}
    for system, played in places.items():
        runs = {number: 1000.0 + place for number, place in played.items()}
        study.add(system, "rate", ("grid", "0"), 0, runs, places=played)
    first, second = pair(study)
    assert first.common_rounds(second) == second.common_rounds(first) == [1, 2]
    assert first.common_rounds(first) == [1, 2, 3, 4]
    assert first.distance(second) == 1


def test_what_runs_near_each_other_share_is_more_than_what_distant_ones_do() -> None:
    """On a machine that drifts: of six points that take turns, the first and the second, and the first and the last."""
    chance, study, drift, place = random.Random(5), StudyRounds(1), 0.0, 0
    for group in range(40):
        values: dict[int, dict[int, float]] = {point: {} for point in range(6)}
        places: dict[int, dict[int, int]] = {point: {} for point in range(6)}
        for number in range(4):
            for point in range(6) if number % 2 else reversed(range(6)):
                drift, place = 0.9 * drift + 0.19**0.5 * chance.gauss(), place + 1
                values[point][number], places[point][number] = 1000 * math.exp(0.05 * drift), place
        for point in range(6):
            study.add("first", "rate", ("grid", f"{6 * group + point}"), group, values[point], places=places[point])
    near, distant = (study.correlation(runs_of(study, "first", 0), runs_of(study, "first", n)) for n in (1, 5))
    assert near > distant + 0.1


def test_what_both_sides_share_cancels() -> None:
    study = StudyRounds(1)
    for system, rate in zip(SYSTEMS, (1000.0, 2000.0), strict=True):
        study.add(system, "rate", ("grid", "0"), "turns", {n: rate * (1 + n / 10) for n in range(4)})
    error, _ = study.error(dict(zip(pair(study), (1.0, -1.0), strict=True)))
    assert error == pytest.approx(0.0, abs=1e-12)
    error, _ = study.error(dict(zip(pair(study), (1.0, 1.0), strict=True)))
    assert error == pytest.approx(2 * stdev([1 + n / 10 for n in range(4)]) / 1.15 / 2)


def test_only_runs_that_took_turns_are_paired() -> None:
    study = StudyRounds(1)
    for point, turns, rounds in (("a", 1, (1, 2, 3)), ("b", 1, (2, 3, 4)), ("c", 1, (3, 4)), ("d", 2, (1, 2, 3))):
        study.add("first", "rate", ("grid", point), turns, {n: 100.0 + n for n in rounds})
    a, b, c, d = (runs for name in "abcd" if (runs := study.find("first", "rate", ("grid", name))))
    assert paired_groups([a, b, c, d]) == [[a, b], [c], [d]]


def test_the_errors_of_runs_that_are_not_paired_add_up_as_squares() -> None:
    study = make_study(random.Random(7), 3, (5, 4), 0.0)
    first, second = runs_of(study, "first", 0), runs_of(study, "first", 1)
    alone = [study.error({runs: 1.0}) for runs in (first, second)]
    error, degrees = study.error({first: 1.0, second: -1.0})
    assert error**2 == pytest.approx(sum(one**2 for one, _ in alone))
    assert 4 <= degrees <= 8


def test_a_single_run_has_the_error_of_the_other_points() -> None:
    study = make_study(random.Random(8), 24, (3, 3), 0.0)
    study.add("first", "rate", ("grid", "one"), 24, {0: 1000.0})
    study.add("first", "rate", ("grid", "two"), 25, {0: 1100.0})
    one, two = (study.find("first", "rate", ("grid", name)) for name in ("one", "two"))
    assert one is not None
    assert two is not None
    noise = share([noise for n in range(24) if (noise := runs_of(study, "first", n).noise)])
    assert noise is not None
    error, degrees = study.error({one: 1.0})
    assert error == pytest.approx(math.sqrt(noise.variance))
    both, of_both = study.error({one: 1.0, two: -1.0})
    assert both == pytest.approx(math.sqrt(2 * noise.variance))
    assert of_both == degrees, "what the other points tell counts once"


def test_paced_points_tell_nothing_of_the_noise_of_others() -> None:
    study = make_study(random.Random(9), 6, (3, 3), 0.0)
    study.add("first", "rate", ("grid", "one"), 24, {0: 1000.0})
    one = study.find("first", "rate", ("grid", "one"))
    assert one is not None
    before = study.error({one: 1.0})
    for n in range(9):
        runs = {0: 5000.0, 1: 5000.0 + n, 2: 5001.0}
        study.add("first", "rate", ("schedule", f"{n}"), n + 30, runs, is_paced=True)
    assert study.error({one: 1.0}) == before


def test_metrics_of_the_same_runs_are_moderated_by_such_figures_of_all_points() -> None:
    """What is received goes with what is sent, at every point in its own way."""
    chance, study = random.Random(10), StudyRounds(1)
    for point in range(8):
        sent = {n: 1000 * math.exp(chance.gauss(0, 0.2)) for n in range(3)}
        received = {n: 50 * value * math.exp(chance.gauss(0, 0.0005)) for n, value in sent.items()}
        study.add("first", "sent", ("grid", f"{point}"), point, sent)
        study.add("first", "received", ("grid", f"{point}"), point, received)
    runs = [study.find("first", metric, ("grid", "0")) for metric in ("received", "sent")]
    known = [one for one in runs if one]
    error, degrees = study.error(dict(zip(known, (1.0, -1.0), strict=True)))
    assert error < 0.002
    assert degrees > 2


@pytest.mark.parametrize("others", [3, 8])
def test_metrics_of_a_single_run_go_together_as_they_do_at_enough_other_points(others: int) -> None:
    chance, study = random.Random(11), StudyRounds(1)
    for point in range(9):
        # Where the ratio is not asked for, a metric alone.
        has_both = point < others or point == 8
        sent = {n: 1000 * math.exp(chance.gauss(0, 0.2)) for n in range(1 if point == 8 else 3)}
        received = {n: 50 * value * math.exp(chance.gauss(0, 0.0005)) for n, value in sent.items()}
        study.add("first", "sent" if has_both else "sent alone", ("grid", f"{point}"), point, sent)
        study.add("first", "received" if has_both else "received alone", ("grid", f"{point}"), point, received)
    sent_alone = study.find("first", "sent", ("grid", "8"))
    received_alone = study.find("first", "received", ("grid", "8"))
    if others < 4:
        assert sent_alone is None
        assert received_alone is None
        return
    assert sent_alone is not None
    assert received_alone is not None
    error, degrees = study.error({received_alone: 1.0, sent_alone: -1.0})
    assert error < 0.002
    assert 1 < degrees <= 8
    both, _ = study.error({received_alone: 1.0, sent_alone: 1.0})
    assert both > 0.2, "what changes both does not cancel in their sum"


def test_metrics_of_a_single_run_are_apart_where_nothing_tells_how_they_go_together() -> None:
    chance, study = random.Random(12), StudyRounds(1)
    for point in range(12):
        metric = ("sent", "received")[point % 2]
        study.add(
            "first", metric, ("grid", f"{point}"), point, {n: 1000 * math.exp(chance.gauss(0, 0.1)) for n in range(3)}
        )
    for metric in ("sent", "received"):
        study.add("first", metric, ("grid", "one"), 12, {0: 1000.0})
    runs = [study.find("first", metric, ("grid", "one")) for metric in ("received", "sent")]
    one, other = (found for found in runs if found)
    alone = [study.error({single: 1.0})[0] for single in (one, other)]
    assert study.error({one: 1.0, other: -1.0})[0] == pytest.approx(math.hypot(*alone))


def test_a_single_run_among_few_points_and_runs_without_a_rate_tell_nothing() -> None:
    study = StudyRounds(1)
    study.add("first", "rate", ("grid", "one"), 1, {1: 100.0})
    study.add("first", "rate", ("grid", "zero"), 1, {1: 0.0, 2: 0.0})
    study.add("first", "rate", ("grid", "same"), 1, {1: 100.0, 2: 100.0})
    assert not any(study.find("first", "rate", ("grid", point)) for point in ("one", "zero", "same"))


def test_all_points_tell_how_noisy_a_round_is() -> None:
    """Rounds that agree by chance have the error that is expected of them: with their correlation, of independent."""
    study = make_study(random.Random(2), 40, (3, 3), 0.0)
    study.add("first", "rate", ("grid", "0"), 0, {0: 1000.0, 1: 1010.0, 2: 990.0})
    study.add("second", "rate", ("grid", "0"), 0, {0: 1000.0, 1: 1010.0, 2: 990.0})
    variances = []
    for system in SYSTEMS:
        noises = [RunNoise.of([*runs_of(study, system, point).values.values()]) for point in range(40)]
        shared = share([noise for noise in noises if noise])
        assert shared is not None
        variances.append(shared.variance)
    error, degrees = study.error(dict(zip(pair(study), (1.0, -1.0), strict=True)))
    assert degrees > 10
    assert error == pytest.approx(math.sqrt(sum(variances) / 3), rel=0.15)


@pytest.mark.parametrize("truth", [0.0, 0.6])
def test_the_correlation_of_rounds_comes_from_all_pairs(truth: float) -> None:
    study = make_study(random.Random(3), 60, (6, 6), truth)
    assert study.correlation(*pair(study)) == pytest.approx(truth, abs=0.12)
    alone = make_study(random.Random(3), 3, (3, 3), truth)
    assert alone.correlation(*pair(alone)) == 0.0, "six independent rounds are too few"


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.8])
@pytest.mark.parametrize(("points", "rounds"), [(3, (4, 4)), (24, (3, 3)), (24, (6, 6)), (24, (6, 3))])
def test_the_interval_of_a_ratio_contains_the_truth(points: int, rounds: tuple[int, int], correlation: float) -> None:
    """Also where only one of the two went on."""
    chance = random.Random(4)
    inside = []
    for _ in range(1500 // points):
        study = make_study(chance, points, rounds, correlation)
        inside += [is_inside(study, *pair(study, point)) for point in range(points)]
    assert 0.925 < fmean(inside) < 0.98


def test_rounds_that_share_noise_are_narrower_than_independent_ones() -> None:
    widths = []
    for correlation in (0.8, 0.0):
        study = make_study(random.Random(5), 24, (3, 3), correlation)
        errors = [study.error(dict(zip(pair(study, n), (1.0, -1.0), strict=True))) for n in range(24)]
        widths.append(fmean(t975(degrees) * error for error, degrees in errors))
    assert widths[0] < 0.7 * widths[1]


@pytest.mark.parametrize("more", [0, 3])
def test_a_common_base_cancels_in_the_difference_of_two_changes(more: int) -> None:
    """The base is far noisier than the two points. `more`: rounds that it has alone with the first."""
    chance, study = random.Random(11), StudyRounds(1)
    for name, deviation, rounds in (("base", 0.3, 6 + more), ("low", 0.03, 6 + more), ("high", 0.03, 6)):
        runs = {n: 1000 * math.exp(chance.gauss(0, deviation)) for n in range(rounds)}
        study.add("first", "rate", ("trace", name), 1, runs)
    low, high = (study.find_pair("first", "rate", ("trace", name), ("trace", "base")) for name in ("low", "high"))
    assert low is not None
    assert high is not None
    assert len(high[1].values) == 6
    change, _ = study.error({low[0]: 1.0, low[1]: -1.0})
    weights = {low[0]: 1.0, high[0]: -1.0}
    difference, _ = study.error(weights if not more else weights | {low[1]: -1.0, high[1]: 1.0})
    assert difference < change if more else difference < change / 4
    assert study.find_pair("first", "rate", ("trace", "low"), ("trace", "base")) == low, "errors add up by the object"
