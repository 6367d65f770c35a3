"""Which points take turns."""

import pytest

from mqlab.study import Claim, Point
from mqlab.study.rounds.interleaving import interleaved_groups
from runner.points import point


def named(points: list[Point], *checks: str) -> list[list[str]]:
    claims = [Claim(id="claim", says="A claim.", source="-", check=check) for check in checks]
    return [[f"{one.scenario}:{one.name}" for one in group] for group in interleaved_groups(points, claims)]


def test_points_that_are_not_compared_stay_alone() -> None:
    points = [point("A", name="size=12"), point("A", name="size=100", size=100), point("B", name="size=12")]
    assert named(points) == [["A:size=12"], ["A:size=100"], ["B:size=12"]]


def test_those_that_differ_in_settings_only_take_turns() -> None:
    points = [
        point("A", name=f"size={size}, trace={trace}", size=size, settings={"trace": trace})
        for size in (12, 100) for trace in ("off", "low")
    ]  # fmt: skip
    assert named(points) == [
        ["A:size=12, trace=off", "A:size=12, trace=low"], ["A:size=100, trace=off", "A:size=100, trace=low"],
    ]  # fmt: skip


def test_the_parameters_that_name_a_setting_make_no_difference() -> None:
    points = [point("A", name=one, parameters={"trace": one}, settings={"trace": one}) for one in ("off", "low")]
    assert len(interleaved_groups(points)) == 1


def test_a_point_takes_turns_with_its_base_whatever_they_differ_in() -> None:
    points = [point("A", name=f"batch={n}", batch=n, base=None if n == 1 else "batch=1") for n in (4, 1, 9)]
    assert named(points) == [["A:batch=4", "A:batch=1", "A:batch=9"]]


def test_a_base_is_one_of_the_same_scenario() -> None:
    points = [point("A", name="x"), point("B", name="y", batch=2, base="x"), point("B", name="x", batch=3)]
    assert named(points) == [["A:x"], ["B:y", "B:x"]]


def test_two_groups_that_turn_out_to_be_one_are_in_the_order_of_the_study() -> None:
    points = [
        point("A", name="a", batch=1), point("A", name="b", batch=2), point("A", name="c", batch=3, base="a"),
        point("A", name="d", batch=2, base="a", settings={"sync": "off"}),
    ]  # fmt: skip
    assert named(points) == [["A:a", "A:b", "A:c", "A:d"]]


SIZES = [
    point(scenario, name=f"size={size}", size=size, parameters={"size": f"{size}"})
    for scenario in "AB" for size in (12, 100)
]  # fmt: skip
A12, A100, B12, B100 = (f"{one.scenario}:{one.name}" for one in SIZES)


@pytest.mark.parametrize(
    ("check", "groups"),
    [
        ("rate.work[B, size=12] / rate.work[A, size=12] > 1", [[A12, B12], [A100], [B100]]),
        ("rate.work[B, size=12] > rate.work[A, size=12]", [[A12, B12], [A100], [B100]]),
        ("max(rate.work[A, size=*]) / min(rate.work[B, size=12], 9) > 1", [[A12, A100, B12], [B100]]),
        # Each point is compared with the one that has the same size, or is in the same scenario.
        ("min(rate.work[A, size=*] / rate.work[B, size=*]) > 1", [[A12, B12], [A100, B100]]),
        ('min(rate.work["A|B", size=*] / rate.work["A|B", size=100]) > 1', [[A12, A100], [B12, B100]]),
        # Systems take turns at each point in any case.
        ("lead(rate.work[A, size=12]) > 1 and rate.work[B, size=12] > 9", [[A12], [A100], [B12], [B100]]),
        ('rate.work[A, size=12] of "one" / rate.work[A, size=12] of "two" > 1', [[A12], [A100], [B12], [B100]]),
        ("min(rate.work[A, size=*]) > 9", [[A12], [A100], [B12], [B100]]),
    ],
)
def test_points_that_a_claim_compares_take_turns(check: str, groups: list[list[str]]) -> None:
    assert named(SIZES, check) == groups


def test_so_do_those_of_a_chain_of_claims() -> None:
    checks = "rate.work[B, size=12] / rate.work[A, size=100] > 1", "rate.work[A, size=12] > rate.work[B, size=12]"
    assert named(SIZES, *checks) == [[A12, A100, B12], [B100]]
