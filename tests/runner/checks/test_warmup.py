"""Before runs of a new kind on a system that compiles: runs that take no time, with the rates that a test wants."""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from mqlab.runner.conductor import Progress
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.run import RunExecution
from mqlab.study import Point
from mqlab.systems import Running
from runner.lab import conducted, rows
from runner.points import point
from runner.test_repetition import FakeSystem, Played, played

__all__ = ["played"]
FIRST_NUMBER = 1_000_000


class Compiling(FakeSystem):
    compiles = True


def play(
    played: Played, tmp_path: Path, points: list[Point], rates: Iterator[float | None],
    seen: list[Progress] | None = None, *, full: bool = False,
) -> tuple[list[RunExecution], int]:  # fmt: skip
    """The warm-up runs, and their number in the record."""
    warm_up_runs: list[RunExecution] = []
    inner = played.play

    async def playing(one: RunExecution, running: Running) -> RunOutcome:
        if one.number > FIRST_NUMBER:
            warm_up_runs.append(one)
            assert not one.record
            if full:
                raise OSError(28, "No space left on device")
        else:
            # The runs themselves are as they would be.
            assert one.point in points
        return await inner(one, running)

    played.play = playing  # type: ignore[method-assign,assignment] # of this instance only
    played.rates = {"one": rates}
    watch = (lambda _: None) if seen is None else seen.append
    folder = conducted(tmp_path, points, systems=[Compiling("one")], agents=1, watch=watch, warm_up=True)
    assert all(run["run"] < FIRST_NUMBER for run in rows(folder, "runs"))
    return warm_up_runs, folder.meta()["systems"][0]["rehearsals"]


@pytest.mark.parametrize(("rates", "expected"), [
    ([100, 100, 100], 3), ([100, 200, 300, 310, 320], 5), ([100, 10, 115, 100, 100], 5), (range(100, 10_000, 100), 10),
])  # fmt: skip
def test_it_is_played_with_until_it_gets_no_quicker(
    played: Played, tmp_path: Path, rates: list[float], expected: int
) -> None:
    seen: list[Progress] = []
    warm_up_runs, told = play(played, tmp_path, [point(least=2, most=2)], chain(rates, repeat(5.0)), seen)
    assert len(warm_up_runs) == told == expected
    assert len(played.order) == expected + 2
    assert "warm up" in {progress.phase for progress in seen}


def test_once_for_each_kind_of_work(played: Played, tmp_path: Path) -> None:
    points = [
        point("A"), point("B", size=1024), point("C", persistent=True), point("D", persistent=True, transaction=10),
        point("E", persistent=True, consumers=3), point("F", domain="topic"),
    ]  # fmt: skip
    warm_up_runs, _ = play(played, tmp_path, points, repeat(5.0))
    assert [one.point.scenario for one in warm_up_runs] == [scenario for scenario in "ACDF" for _ in range(3)]


def test_as_much_as_goes_in_a_second_whatever_the_point_is_about(played: Played, tmp_path: Path) -> None:
    long = point(measure=1000, messages=10**9, rate=3.0, load="send")
    [first, *_], _ = play(played, tmp_path, [long], repeat(5.0))
    assert first.point.seconds == 1
    assert (first.point.messages, first.point.rate, first.point.load) == (None, None, "both")


def test_a_system_that_breaks_is_left_to_the_run(played: Played, tmp_path: Path) -> None:
    warm_up_runs, told = play(played, tmp_path, [point()], iter([None, 5.0]))
    assert (len(warm_up_runs), told) == (1, 0)
    assert played.order[-1] == ("A", "one", 1)


def test_so_is_one_that_fills_the_disk(played: Played, tmp_path: Path) -> None:
    warm_up_runs, told = play(played, tmp_path, [point()], repeat(5.0), full=True)
    assert (len(warm_up_runs), told) == (1, 0)
    assert played.order == [("A", "one", 1)]
