"""Runs that a search asks for while the conductor plays: points that no study declares, until it asks for no more."""

from collections.abc import Sequence
from pathlib import Path

from mqlab.study import Point
from mqlab.study.capacity.points import at_rate
from mqlab.study.capacity.search import RunRequest
from runner.lab import conducted, rows
from runner.points import point
from runner.test_repetition import STEADY, FakeSystem, Played, played

__all__ = ["played"]


class Asking:
    """A search with prepared steps."""

    def __init__(self, *steps: Sequence[RunRequest]) -> None:
        self.steps = [*steps]
        self.asked = 0

    def __call__(self) -> Sequence[RunRequest]:
        self.asked += 1
        return self.steps.pop(0) if self.steps else ()


def rate_of(base: Point, rate: float, runs: int, system: str = "one") -> RunRequest:
    return RunRequest(system, at_rate(base, rate), runs)


def test_each_step_is_played_and_its_repetitions_go_on(played: Played, tmp_path: Path) -> None:
    base = point()
    search = Asking([rate_of(base, 100.0, 1), rate_of(base, 200.0, 2)], [rate_of(base, 100.0, 2)])
    played.rates = {"one": iter(STEADY * 3)}
    folder = conducted(tmp_path, [base], systems=[FakeSystem("one")], agents=1, search=search)
    assert played.paces["one"] == [None, 100.0, 200.0, 200.0, 100.0, 100.0]
    assert [repetition for *_, repetition in played.order] == [1, 1, 1, 2, 2, 3]
    assert search.asked == 3
    searched = [Point.model_validate(made) for made in folder.meta()["searched"]]
    assert [(made.name, made.rate, made.parameters["rate"]) for made in searched] == [
        ("rate=100/s", 100.0, "100/s"), ("rate=200/s", 200.0, "200/s"),
    ]  # fmt: skip
    assert folder.meta()["status"] == "complete"


def test_every_system_has_its_own_points(played: Played, tmp_path: Path) -> None:
    base = point()
    search = Asking([rate_of(base, 100.0, 1, "one"), rate_of(base, 300.0, 1, "two")])
    played.rates = {"one": iter(STEADY), "two": iter(STEADY)}
    conducted(tmp_path, [base], systems=[FakeSystem("one"), FakeSystem("two")], agents=1, search=search)
    assert played.paces == {"one": [None, 100.0], "two": [None, 300.0]}


def test_the_rates_are_played(tmp_path: Path) -> None:
    base = point(batch=1)
    folder = conducted(tmp_path, [base], search=Asking([rate_of(base, 500.0, 1, "embedded")]))
    closed, searched = rows(folder, "runs")
    assert (searched["point"], searched["status"]) == ("rate=500/s", "complete")
    sends = [send for send in rows(folder, "sends") if send["run"] == searched["run"]]
    assert len({send["t_planned"] - 2_000_000 * send["first_seq"] for send in sends}) == 1
    assert closed["counted_sent"] > 0
