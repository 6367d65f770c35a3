"""Which points take turns."""

from mqlab.study import Point
from mqlab.study.rounds.interleaving import interleaved_groups
from runner.points import point


def named(points: list[Point]) -> list[list[str]]:
    return [[f"{one.scenario}:{one.name}" for one in group] for group in interleaved_groups(points)]


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
