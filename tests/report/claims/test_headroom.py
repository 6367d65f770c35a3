"""What rates can be without the lab's own work, on measures made up from a truth that is known."""

import math
import random
from dataclasses import replace

import pytest

from mqlab.pipeline.schema import BUSY_PERCENT, MeasureRow
from mqlab.report.claims.changes import change_without_lab
from mqlab.report.claims.headroom import Headroom, RatioWithoutLab
from mqlab.report.claims.interval import Errors, Interval, Uncertainty
from mqlab.report.claims.values import MeasuredValues
from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, REFUTED, judge_subject
from mqlab.report.data.run_results import RunResults
from mqlab.study import load_study
from mqlab.study.language.expression import parse
from report.claims.invented_measures import InventedMeasures

TRACE = load_study("ibmmq-943-trace")
(MONITORING,) = [claim for claim in TRACE.claims if claim.id == "monitoring-free-bindings"]


def headroom(share: float, rate: float) -> Headroom:
    """Of a rate whose messages take the lab this share of a busy core."""
    return Headroom(100 / (BUSY_PERCENT - 100 * share), share / rate, "work")


def test_the_ratio_without_the_lab_lies_inside_the_bounds() -> None:
    """A core is busy for 85 to 100 % of the time with the system's and the lab's work on messages."""
    chance = random.Random(4)
    for _ in range(2000):
        lab, base = chance.uniform(0.1, 0.6), chance.uniform(0.3, 1.0)
        new = base * math.exp(chance.gauss(0, 0.5))
        busy = chance.uniform(BUSY_PERCENT / 100, 1.0)
        rates = [busy / (system + lab) for system in (base, new)]
        shares = [rate * lab for rate in rates]
        if max(shares) >= BUSY_PERCENT / 100:
            continue
        change = RatioWithoutLab(*(headroom(share, rate) for share, rate in zip(shares, rates, strict=True)))
        measured, truth = rates[1] / rates[0], base / new
        assert change.least(measured) <= truth * (1 + 1e-9)
        assert change.greatest(measured) >= truth * (1 - 1e-9)


def test_without_a_difference_there_is_none_without_the_lab() -> None:
    change = RatioWithoutLab(headroom(0.3, 1000), headroom(0.3, 1000))
    assert (change.least(1.0), change.greatest(1.0)) == (1.0, 1.0)
    # A small change is greater by 1 / (1 - share); the share is that of a core that is busy at least for 85 %.
    assert change.least(0.99) == pytest.approx(1 - 0.01 / (BUSY_PERCENT / 100 - 0.3), rel=0.01)
    assert change.greatest(0.99) == 0.99


def test_it_is_never_wider_than_the_headroom_of_each_side() -> None:
    change = RatioWithoutLab(headroom(0.5, 1000), headroom(0.5, 1000))
    assert change.greatest(3.0) == pytest.approx(3.0 * change.new.most)
    assert change.least(0.001) >= 0.001 / change.base.most


def test_calls_of_more_messages_cost_the_lab_less() -> None:
    """Without the lab a side gains less if its messages took it less."""
    share = 0.3
    cheaper = RatioWithoutLab(headroom(share, 1000), Headroom(headroom(share, 1000).most, 0.8 * share / 1000, "work"))
    assert cheaper.least(1.0) < 1.0 == cheaper.greatest(1.0)


def test_random_errors_of_several_changes_still_add_up_as_squares() -> None:
    change = RatioWithoutLab(headroom(0.3, 1000), headroom(0.3, 1000))
    changes = [change_without_lab(change, -1.0, -3.0, 1.0, {name: Uncertainty(1.0, 1000)}) for name in "abcd"]
    total = sum(changes[1:], changes[0])
    mean = total / Interval.exactly(4.0)
    one = changes[0]
    assert one.low < -3.0
    assert mean.value == -1.0
    assert mean.high - mean.low < 0.6 * (one.high - one.low)
    # What the lab may hide does not shrink with the number of changes.
    assert mean.low < one.value - one.shift[0]
    assert (-mean).high == -mean.low
    assert mean.at(0.001).low < mean.low


def test_the_product_of_a_change_that_may_be_greater_has_its_ends_alone() -> None:
    change = RatioWithoutLab(headroom(0.3, 1000), headroom(0.3, 1000))
    one = change_without_lab(change, -10.0, -12.0, -8.0, {"a": Uncertainty(1.0, 1000)})
    other = Interval.estimated(2.0, {"b": Uncertainty(0.1, 1000)})
    assert (one * other).errors is None
    assert ((one * other).low, (one * other).high) == (one.low * other.high, one.high * other.low)
    assert (one / other).low == one.low / other.low


def bounded(value: float, lab_percent: float) -> RunResults:
    """The measures of the claim that monitoring changes nothing, with this rate; all are bounded by the lab."""
    invented = InventedMeasures(TRACE, MONITORING, ("embedded",))
    for place in invented.values:
        point = invented.points[place[1], place[2]]
        invented.values[place] = value if point.base is not None else 100.0
    results = invented.results
    rates = [replace(row, bound_by="lab") for row in results.measures]
    labs = [
        MeasureRow(
            row.study, row.scenario, row.point, row.system, "cpu.lab", lab_percent * row.value / 100.0, "%", 0.1, 5, 4,
            "lab", 5, 0, 0, True, None, None,
        )
        for row in rates
    ]  # fmt: skip
    bound = results.with_tables(measures=(*rates, *labs), impacts=results.impacts, run_measures=(), audits=(), noise=())
    vars(bound).update(points=results.points, point_index=results.point_index)
    return bound


@pytest.mark.parametrize(
    ("rate", "lab_percent", "expected"),
    [
        (99.5, 25.0, HOLDS),
        (100.0, 25.0, HOLDS),
        (96.0, 25.0, INCONCLUSIVE),
        (90.0, 25.0, REFUTED),
        (99.5, 85.0, INCONCLUSIVE),
    ],
)
def test_a_claim_of_no_change_is_decided_where_the_lab_bounds_both_sides(
    rate: float, lab_percent: float, expected: str
) -> None:
    """96 may be 100 less 4 % or, without the lab, less than 5 %."""
    expression = parse(MONITORING.check or "")
    verdict = judge_subject(MONITORING, expression, MeasuredValues(bounded(rate, lab_percent), "embedded"))
    assert verdict.verdict == expected


def test_points_with_another_calibration_are_not_the_same_work() -> None:
    one, other_rate = next(iter(TRACE.points("quick"))), next(iter(bounded(99.0, 25.0).measures))
    lab = replace(other_rate, metric="cpu.lab", value=20.0)

    def of(**changes: object) -> Headroom:
        return Headroom.of(one.model_copy(update=changes), other_rate, lab)

    assert of().is_like(of(settings={"trace": "high"}, persistent=not one.persistent))
    for change in ({"size": one.size + 1}, {"send": "none"}, {"transaction": 10}, {"pattern": "other"}):
        assert not of().is_like(of(**change))
    assert not Headroom().is_like(Headroom()), "the lab bounded none"
    assert not Headroom(math.inf, 0.0, "work").is_like(headroom(0.3, 100.0))


def measured(value: float, share: float, name: str, like: bool = True) -> Interval:
    """A rate that the lab bounded, known to 2 %."""
    room = headroom(share, value)
    room = room if like else replace(room, work=name)
    errors: Errors = {name: Uncertainty(0.01 * value, 1000, value)}
    return Interval(value, 0.98 * value, 1.02 * value * room.most, errors, slack=(1.0, room.most), headroom=room)


def test_a_ratio_of_two_systems_that_the_lab_bounded_alike() -> None:
    """At one point the lab does the same for a message of either system."""
    alike = measured(100.0, 0.3, "a") / measured(101.0, 0.303, "b")
    assert 0.9 < alike.low < 0.97 < alike.high < 1.1
    apart = measured(100.0, 0.3, "a", like=False) / measured(101.0, 0.303, "b", like=False)
    assert apart.low < 0.6
    assert apart.high > 1.7
    # Far apart the bounds are those of each side.
    far = measured(100.0, 0.1, "a") / measured(400.0, 0.4, "b")
    assert far.high == pytest.approx(0.25 * math.exp(1.96 * math.sqrt(2) * 0.01), rel=0.01)
    assert far.low >= 0.25 * 0.95 / measured(400.0, 0.4, "b").headroom.most
    wider = alike.at(0.001)
    assert wider.low < alike.low < alike.high < wider.high
