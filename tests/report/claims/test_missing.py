"""How much longer an undecided claim needs, on runs of a known scatter and a known truth."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report.claims.counted import COUNTED, CountedRates, PointRates
from mqlab.report.claims.interval import Interval
from mqlab.report.claims.missing import times_to_decide
from mqlab.report.claims.verdicts import INCONCLUSIVE, Verdict, judge
from mqlab.report.data.run_results import PointKey, RunResults
from mqlab.study import Claim, load_study

SCATTER = 0.06
FIRST_RUNS = 3
STUDIES = 24
POINTS = [point for point in load_study("jms-four-brokers").points("quick") if point.scenario in "ABCDEFGH"]
# Of a run at the scale quick, as a report counts it.
SECONDS = {point.scenario: point.phases.warmup + point.phases.measure + 1 for point in POINTS}


def played(chance: random.Random, runs: dict[str, int], truth: dict[str, float]) -> dict[PointKey, PointRates]:
    """Rates of the scenarios that scatter around the truth."""
    return {
        ("embedded", name, ""): {
            number: dict.fromkeys(COUNTED, rate)
            for number in range(1, runs.get(name, FIRST_RUNS) + 1)
            for rate in [1000 * truth.get(name, 1.0) * math.exp(SCATTER * chance.gauss())]
        }
        for name in "ABCDEFGH"
    }


def judged(rates: dict[PointKey, PointRates], check: str) -> Verdict:
    study = load_study("jms-four-brokers")
    claim = Claim(id="ours", says="so", source="here", check=check)
    run = RunResults(
        RunFolder(Path("made up")),
        {"scale": "quick", "systems": [{"name": "embedded"}]},
        replace(study, claims=(claim,)),
    )
    results = CountedRates(study, POINTS, rates, looks=4, metrics=("rate.received", "rate.sent")).results(run)
    (found,) = [verdict for verdict in judge(results) if verdict.basis == "measured"]
    return found


def share_decided(check: str, scenarios: str, truth: dict[str, float]) -> tuple[float, int]:
    """Of the studies whose claim was undecided: those that decide it in a new run folder with the promised minutes."""
    chance, decided = random.Random(11), []
    seconds = sum(SECONDS[name] for name in scenarios) * FIRST_RUNS
    for _ in range(STUDIES):
        first = judged(played(chance, {}, truth), check)
        if first.verdict != INCONCLUSIVE:
            continue
        assert first.missing_minutes is not None
        times = 1 + first.missing_minutes * 60 / seconds
        if times < 60:
            runs = dict.fromkeys(scenarios, math.ceil(FIRST_RUNS * times))
            decided.append(judged(played(chance, runs, truth), check).verdict != INCONCLUSIVE)
    return sum(decided) / len(decided), len(decided)


@pytest.mark.parametrize(
    ("check", "scenarios", "truth"),
    [
        ("rate.received[A] > rate.received[B]", "AB", {"A": 1.08}),
        ("rate.received[A] > rate.received[B]", "AB", {"A": 0.95}),
        ("0.9 < rate.received[A] / rate.received[B] < 1.1", "AB", {"A": 1.04}),
        # All of them must be decided, and the last is the hardest.
        ("rate.received[A] > rate.received[B] and rate.received[C] > rate.received[D] and "
         "rate.received[E] > rate.received[F]", "ABCDEF", {"A": 1.3, "C": 1.12, "E": 1.08}),
    ],
)  # fmt: skip
def test_the_promised_minutes_decide_a_claim(check: str, scenarios: str, truth: dict[str, float]) -> None:
    share, count = share_decided(check, scenarios, truth)
    assert count >= 8
    assert share >= 0.78


def test_all_open_comparisons_of_a_claim_count() -> None:
    """A claim that would hold needs all of them; the first alone would be decided soon."""
    rates = played(random.Random(3), {}, {"A": 1.1, "C": 1.04})
    first, second = "rate.received[A] > rate.received[B]", "rate.received[C] > rate.received[D]"
    alone = [judged(rates, check) for check in (first, second)]
    assert [one.verdict for one in alone] == [INCONCLUSIVE] * 2
    minutes = [one.missing_minutes or 0.0 for one in alone]
    assert judged(rates, f"{first} and {second}").missing_minutes == pytest.approx(sum(minutes))
    assert judged(rates, f"{second} and {first} and {second}").missing_minutes == pytest.approx(sum(minutes))


def test_one_comparison_is_enough_to_refute_a_claim() -> None:
    rates = played(random.Random(3), {}, {"A": 1.1, "C": 1.04})
    against, other = "rate.received[A] < rate.received[B]", "rate.received[C] > rate.received[D]"
    assert judged(rates, f"{against} and {other}").missing_minutes == judged(rates, against).missing_minutes
    # So is it for the opposite.
    assert judged(rates, f"not ({against} and {other})").missing_minutes == judged(rates, against).missing_minutes
    assert judged(rates, f"{against} or {other}").missing_minutes == judged(rates, other).missing_minutes


@pytest.mark.parametrize(
    ("value", "limits", "least", "most"),
    [
        (Interval(1.0, 0.8, 1.25), (1.0,), 50, 200),  # at the limit itself
        (Interval(1.0, 0.8, 1.25), (1.2,), 3, 10),
        (Interval(1.0, 0.8, 1.25), (0.9, 1.1), 50, 200),
        (Interval(0.0, -4.0, 4.0), (-3.0, 3.0), 15, 60),
    ],
)
def test_a_nearer_limit_needs_more_runs(value: Interval, limits: tuple[float, ...], least: float, most: float) -> None:
    times = times_to_decide(value, limits)
    assert times is not None
    assert least < times < most


@pytest.mark.parametrize("value", [Interval(1.0, 0.0, math.inf), Interval(1.0, 0.5, math.inf), Interval(1.0, 1.0, 1.0)])
def test_without_an_interval_nothing_is_known(value: Interval) -> None:
    assert times_to_decide(value, (2.0,)) is None


def test_a_claim_without_an_interval_says_so() -> None:
    rates = played(random.Random(3), dict.fromkeys("ABCDEFGH", 1), {})
    found = judged(rates, "rate.received[A] > 2 * rate.received[B]")
    assert (found.verdict, found.missing_minutes) == (INCONCLUSIVE, None)
    assert found.missing == "how much longer is not known: no interval yet"
