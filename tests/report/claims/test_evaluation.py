"""Checks over intervals: decided only when every value inside them agrees."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.report.claims import evaluation
from mqlab.report.claims.evaluation import CheckResult, best_of
from mqlab.report.claims.interval import Interval
from mqlab.report.claims.values import ClaimValues, MissingValueError
from mqlab.study import Point, built_in_studies, load_study
from mqlab.study.language.expression import Expression, parse
from mqlab.study.language.reference import Reference

SCENARIOS = "ABCD"


@dataclass
class Known:
    """Values by scenario, for one system or by system."""

    values: Mapping[str, Interval]
    systems: Mapping[str, Mapping[str, Interval]] | None = None
    standing: Mapping[str, str] = field(default_factory=dict)
    grid: list[Point] = field(default_factory=list)

    def value(self, reference: Reference, within: bool) -> Interval:  # noqa: ARG002
        return self.values[", ".join((reference.scenario, *(value for _, value in reference.where)))]

    def values_by_system(self, reference: Reference) -> Mapping[str, Interval]:
        assert self.systems is not None
        return {name: values[reference.scenario] for name, values in self.systems.items()}

    def impact(self, reference: Reference) -> Interval:
        return self.values[f"impact {reference.scenario}"]

    def resolve_system(self, name: str) -> str | None:
        return self.standing.get(name, name)

    def points(self, reference: Reference) -> list[Point]:
        return [point for point in self.grid if reference.matches(point)]

    def peak(self, reference: Reference) -> Interval | None:
        return self.values.get(f"greatest {reference.scenario}")


class Anything(Known):
    """Has every value that a check asks for; changes are negative."""

    def __init__(self) -> None:
        super().__init__({})

    def value(self, reference: Reference, within: bool) -> Interval:  # noqa: ARG002
        return around(100, 5)

    def values_by_system(self, reference: Reference) -> Mapping[str, Interval]:  # noqa: ARG002
        return {"a": around(100, 5), "b": around(50, 5)}

    def impact(self, reference: Reference) -> Interval:  # noqa: ARG002
        return around(-10, 2)

    def points(self, reference: Reference) -> list[Point]:
        del reference
        return [Point.model_construct(scenario="A", name="", parameters={})]

    def peak(self, reference: Reference) -> Interval | None:  # noqa: ARG002
        return None


def evaluate(expression: Expression, known: Known) -> CheckResult:
    return evaluation.evaluate(expression, cast(ClaimValues, known))


def around(value: float, half: float = 0.0) -> Interval:
    return Interval(value, value - half, value + half)


def truth(check: str, **values: Interval) -> bool | None:
    return evaluate(parse(check), Known(values)).truth


def over(check: str, **systems: Interval) -> bool | None:
    return evaluate(parse(check), Known({}, {name: {"A": value} for name, value in systems.items()})).truth


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("rate.received[B] / rate.received[A] > 1.2", True),
        ("rate.received[B] / rate.received[A] > 3", False),
        ("rate.received[B] / rate.received[A] > 2", None),
        ("1 < rate.received[B] / rate.received[A] < 10", True),
        ("1 < rate.received[B] / rate.received[A] < 1.5", False),
        ("1 < rate.received[B] / rate.received[A] < 2", None),
        ("abs(rate.received[A] - rate.received[B]) < 1000", True),
        ("abs(rate.received[A] / rate.received[B] - 1) <= 0.1", False),
        ("min(rate.received[A], rate.received[B]) >= 95", True),
        ("max(rate.received[A], rate.received[B]) <= 205 - 1", None),
        ("-rate.received[A] < 0", True),
        ("not rate.received[A] > 200", True),
        ("rate.received[A] > 200 or rate.received[B] > 150", True),
        ("rate.received[A] > 200 or rate.received[B] > 200", None),
        ("rate.received[A] > 200 and rate.received[B] > 200", False),
        ("rate.received[A] > 50 and rate.received[B] > 200", None),
        ("not (rate.received[A] > 50 and rate.received[B] > 200)", None),
    ],
)
def test_truth(check: str, expected: bool | None) -> None:
    assert truth(check, A=around(100, 5), B=around(200, 10)) is expected


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ('first(rate.received[A]) == "fast"', True),
        ('first(rate.received[A]) != "fast"', False),
        ('first(rate.received[A]) == "slow"', False),
        ("spread(rate.received[A]) > 8", True),
        ("spread(rate.received[A]) > 12", False),
        ("spread(rate.received[A]) > 10", None),
        ("lead(rate.received[A]) > 1.5", True),
        ("lead(rate.received[A]) < 1", False),
        ('first(latency.p99.9[A]) == "slow"', True),  # the least latency is the best
        ("lead(latency.p99[A]) > 4", True),
    ],
)
def test_over_systems(check: str, expected: bool | None) -> None:
    assert over(check, fast=around(100, 2), middle=around(50, 2), slow=around(10, 0.5)) is expected


def test_who_is_first_stays_open_while_intervals_overlap() -> None:
    systems = {"a": around(100, 10), "b": around(95, 10), "c": around(50, 10)}
    assert best_of("rate.received", systems) == {"a", "b"}
    assert over('first(rate.received[A]) == "a"', **systems) is None
    assert over('first(rate.received[A]) == "c"', **systems) is False


def test_a_lead_is_never_below_one() -> None:
    outcome = evaluate(
        parse("lead(rate.received[A]) < 1.2"), Known({}, {"a": {"A": around(100, 50)}, "b": {"A": around(99, 50)}})
    )
    assert outcome.truth is None
    assert outcome.figures == ("lead(rate.received[A]) = 1.01 (1 to 3.06)",)


def test_figures_name_every_side_once() -> None:
    check = "latency.p99.9[A] < 2 * latency.p50[A] or latency.p99.9[A] < 1"
    outcome = evaluate(parse(check), Known({"A": around(4, 1)}))
    assert outcome.figures == ("latency.p99.9[A] = 4 (3 to 5)", "2 * latency.p50[A] = 8 (6 to 10)")


def test_an_open_interval_is_said_to_be_unbounded() -> None:
    outcome = evaluate(parse("rate.received[A] > 0.5"), Known({"A": Interval(4, 1, math.inf)}))
    assert outcome.truth is True
    assert outcome.figures == ("rate.received[A] = 4 (1 to unbounded)",)


def test_an_interval_that_excludes_nothing_is_none() -> None:
    """Of runs that were all disturbed: 0 to unbounded looks like a result."""
    open_values = {name: Interval(value, 0, math.inf) for name, value in (("A", 127.0), ("B", 100.0))}
    outcome = evaluate(parse("rate.received[A] / rate.received[B] > 1.1"), Known(open_values))
    assert outcome.truth is None
    (found,) = outcome.comparisons
    assert found.found == "1.27 times (no interval)"
    assert outcome.figures == ("rate.received[A] / rate.received[B] = 1.27 (no interval)",)


@pytest.mark.parametrize("check", ["1 / rate.received[A] > 1", "rate.received[B] / rate.received[A] > 1"])
def test_division_by_zero_has_no_result(check: str) -> None:
    with pytest.raises(MissingValueError, match="zero"):
        truth(check, A=Interval.exactly(0), B=Interval.exactly(1))


def test_too_large_figures_have_no_result() -> None:
    with pytest.raises(MissingValueError, match="too large"):
        truth("rate.received[A] * rate.received[A] > 1", A=Interval.exactly(1e300))


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> list[Point]:
    file = tmp_path_factory.mktemp("grid") / "grid.yaml"
    file.write_text(
        "study: grid\ntitle: Grid\ndefaults: {queues: 1, producers: 1, consumers: 1}\n"
        "scenarios:\n  A: {message: {size: [12B, 1KiB], persistent: [no, yes]}}\n"
    )
    return load_study(file).points("quick")


VALUES = {"A, 12B, no": 100, "A, 12B, yes": 50, "A, 1KiB, no": 80, "A, 1KiB, yes": 10}


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("max(rate.received[A, size=*, persistent=*]) > 98", True),
        ("min(rate.received[A, size=*, persistent=*]) > 12", False),
        ("min(rate.received[A, size=*, persistent=no]) > 70", True),
        ("mean(rate.received[A, size=*, persistent=*]) > 58", True),
        ("mean(rate.received[A, size=*, persistent=*]) > 60", None),
        # The same size in both: never the figure of one size over that of the other.
        ("min(rate.received[A, size=*, persistent=no] / rate.received[A, size=*, persistent=yes]) > 1.9", True),
        ("max(rate.received[A, size=*, persistent=no] / rate.received[A, size=*, persistent=yes]) > 9", False),
    ],
)
def test_over_points(grid: list[Point], check: str, expected: bool | None) -> None:
    known = Known({place: around(value, 1) for place, value in VALUES.items()}, grid=grid)
    assert evaluate(parse(check), known).truth is expected


def test_a_peak_that_is_known_as_such_needs_no_points() -> None:
    outcome = evaluate(parse("max(rate.received[A, size=*]) > 90"), Known({"greatest A": around(100)}))
    assert outcome.truth is True
    assert outcome.figures == ("max(rate.received[A, size=*]) = 100",)


def test_an_impact_is_a_value_of_its_own() -> None:
    known = Known({"impact A": Interval(-41, -45, -37)})
    assert evaluate(parse("-50 < impact(rate.received[A]) < -30"), known).truth is True
    assert evaluate(parse("impact(rate.received[A]) < -40"), known).truth is None


def test_a_published_name_means_the_system_that_stands_for_it() -> None:
    systems = {"embedded": {"A": around(100)}, "embedded:retrieval=scan": {"A": around(10)}}
    known = Known({}, systems, {"MSMQ 2.0": "embedded:retrieval=scan"})
    assert evaluate(parse('first(rate.received[A]) == "MSMQ 2.0"'), known).truth is False
    assert evaluate(parse('first(rate.received[A]) == "embedded"'), known).truth is True


positive = st.floats(0.001, 1e6)


@st.composite
def values_inside(draw: st.DrawFn) -> dict[str, tuple[Interval, float]]:
    found = {}
    for scenario in SCENARIOS:
        low, value, high = sorted(draw(st.tuples(positive, positive, positive)))
        found[scenario] = (Interval(value, low, draw(st.sampled_from([high, math.inf]))), draw(st.floats(low, high)))
    return found


def numbers() -> st.SearchStrategy[str]:
    leaves = st.sampled_from([f"rate.received[{scenario}]" for scenario in SCENARIOS] + ["2", "0.5", "1.2"])

    def grow(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(parts, parts)
        return st.one_of(
            st.tuples(pairs, st.sampled_from("+-*/")).map(lambda made: f"({made[0][0]} {made[1]} {made[0][1]})"),
            st.tuples(pairs, st.sampled_from(["min", "max"])).map(lambda m: f"{m[1]}({m[0][0]}, {m[0][1]})"),
            parts.map(lambda part: f"abs({part})"),
            parts.map(lambda part: f"(-{part})"),
        )

    return st.recursive(leaves, grow, max_leaves=6)


NUMBERS = numbers()


@st.composite
def checks(draw: st.DrawFn) -> str:
    def compare() -> str:
        left, right = draw(NUMBERS), draw(NUMBERS)
        return f"{left} {draw(st.sampled_from(['<', '<=', '>', '>=']))} {right}"

    first = compare()
    return draw(st.sampled_from([first, f"not {first}", f"{first} and {compare()}", f"{first} or not {compare()}"]))


@settings(max_examples=300, deadline=None)
@given(check=checks(), known=values_inside())
def test_what_is_decided_is_so_for_values_inside(check: str, known: dict[str, tuple[Interval, float]]) -> None:
    """Against Python's own evaluation of the same text with a value from inside each interval."""
    text = check
    for scenario in SCENARIOS:
        text = text.replace(f"rate.received[{scenario}]", f"inside_{scenario}")
    try:
        outcome = evaluate(parse(check), Known({scenario: known[scenario][0] for scenario in SCENARIOS}))
        pointwise = eval(text, {f"inside_{scenario}": known[scenario][1] for scenario in SCENARIOS})
    except (MissingValueError, ZeroDivisionError):
        return
    assert outcome.truth is None or outcome.truth is pointwise


@pytest.mark.parametrize(
    ("check", "found", "needed"),
    [
        ("rate.received[B] > rate.received[A]", "2 times (1.81 to 2.21)", "more than 1"),
        ("impact(rate.received[C]) < impact(rate.received[D])", "-20 more (-30 to -10)", "less than 0"),
        ("rate.received[A] <= 2 * impact(rate.received[C])", "180 more (165 to 195)", "at most 0"),
    ],
)
def test_two_values_are_compared_by_their_ratio_or_difference(check: str, found: str, needed: str) -> None:
    values = {"A": around(100, 5), "B": around(200, 10), "impact C": around(-40, 5), "impact D": around(-20, 5)}
    (comparison,) = evaluate(parse(check), Known(values)).comparisons
    assert (comparison.found, comparison.needed) == (found, needed)


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (around(20, 1), True),
        (around(64, 1), False),  # about twenty times is not held by 64
        (around(9, 1), False),
        (around(30, 1), None),
        (Interval.exactly(30.0), True),
    ],
)
def test_about_has_two_sides(value: Interval, truth: bool | None) -> None:
    result = evaluate(parse("about(rate.received[A], 20)"), Known({"A": value}))
    assert result.truth is truth
    assert result.deciding.needed == "about 20 (13.3 to 30)"
    assert result.deciding.limits == pytest.approx((13.33, 30), abs=0.01)


@pytest.mark.parametrize(("change", "truth"), [(-40, True), (-20, False), (-70, False), (41, False)])
def test_about_a_negative_number(change: float, truth: bool) -> None:
    values = Known({"impact A": around(change, 1)})
    result = evaluate(parse("about(impact(rate.received[A]), -41)"), values)
    assert (result.truth, result.deciding.needed) == (truth, "about -41 (-61.5 to -27.3)")
    assert evaluate(parse("not about(impact(rate.received[A]), -41)"), values).truth is not truth


def test_every_check_of_the_studies_compares_something() -> None:
    """Whatever the values are: a verdict says what was needed."""
    for name in built_in_studies():
        for claim in load_study(name).claims:
            if claim.check is not None:
                result = evaluation.evaluate(parse(claim.check), cast(ClaimValues, Anything()))
                assert result.deciding.needed
