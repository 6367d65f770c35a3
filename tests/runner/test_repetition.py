"""How often a point is run, and in which order: runs that take no time, with the rates that a test wants."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest

from mqlab.events.schema import COMPLETE, INCOMPLETE
from mqlab.json_values import JsonObject
from mqlab.runner import conductor as conducting
from mqlab.runner import rounds
from mqlab.runner.agents import launcher
from mqlab.runner.conductor import Progress
from mqlab.runner.results.outcome import RunOutcome
from mqlab.runner.rounds import Budget, SeriesKey
from mqlab.runner.run import RunExecution
from mqlab.study import Claim, Point
from mqlab.study.rounds.played import PlayedRuns
from mqlab.systems import Durability, Running, System
from runner.lab import check_delivery, conducted, rows
from runner.points import MEASURE, point


class FakeSystem(System):
    name = "fake"
    title = "a fake"
    drivers = ("native",)
    starts: Counter[str] = Counter()  # noqa: RUF012 - a test has its own
    empty = True

    def __init__(self, name: str) -> None:
        super().__init__({"name": name})
        self.label = name

    def describe(self) -> JsonObject:
        return {"name": self.label, "version": "0", "settings": {}, "stamps": []}

    async def start(self, folder: Path) -> Running:
        assert folder.parent.is_dir()
        self.starts[self.label] += 1
        return FakeRunning(self)

    def durability(self) -> Durability:
        return Durability("never", "", "", "", "")

    def missing(self) -> str:
        return ""

    def install(self, _say: Callable[[str], None]) -> None:
        raise AssertionError("nobody asked for it")


class FakeRunning(Running):
    address = "tcp:127.0.0.1:1"

    def __init__(self, system: FakeSystem) -> None:
        self._system = system

    async def sample(self) -> JsonObject:
        return {}

    async def empty(self) -> bool:
        return self._system.empty

    async def stop(self) -> None:
        self._system.starts[f"{self._system.label} stopped"] += 1


class IdleAgent:
    """Plays nothing, since no run is played."""

    host = ""
    has_loopback = True

    @classmethod
    async def start(cls, _: int) -> "IdleAgent":
        return cls()

    async def ask(self, _: str, **__: object) -> JsonObject:
        return {}

    async def stop(self) -> None: ...


class Played:
    """The runs that were asked for; `rates` are what the agents count, one after the other for each system."""

    def __init__(self) -> None:
        self.order: list[tuple[str, str, int]] = []
        self.rates: dict[str, Iterator[float | None]] = {}
        self.paces: dict[str, list[float | None]] = {}
        self.copies = 1.0

    async def play(self, one: RunExecution, _: Running) -> RunOutcome:
        self.order.append((one.point.scenario, one.system.label, one.repetition))
        one.watch("measure", one.point.phases.measure)
        rate = next(self.rates[one.system.label])
        self.paces.setdefault(one.system.label, []).append(one.point.rate)
        if rate is None:
            return RunOutcome(INCOMPLETE, "it broke")
        measured = one.point.phases.measure
        counted = round(rate * measured)
        return RunOutcome(COMPLETE, "", counted_received=counted, seconds=measured, copies=self.copies)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    found = Played()
    monkeypatch.setattr(RunExecution, "play", lambda one, running: found.play(one, running))
    monkeypatch.setattr(launcher, "start_agent", IdleAgent.start)
    monkeypatch.setattr(conducting, "describe_machine", lambda _: {})
    monkeypatch.setattr(conducting, "combinations", lambda *_: [])
    monkeypatch.setattr(FakeSystem, "starts", Counter())
    return found


def play(
    played: Played, tmp_path: Path, points: list[Point], seen: list[Progress] | None = None,
    budget: Budget | None = None, restart: bool = False, claims: Sequence[Claim] = (), **rates: list[float | None],
) -> list[tuple[str, str, int]]:  # fmt: skip
    played.rates = {name: iter(values) for name, values in rates.items()}
    watch = (lambda _: None) if seen is None else seen.append
    systems = [FakeSystem(name) for name in rates]
    conducted(tmp_path, points, systems=systems, agents=1, watch=watch, budget=budget, restart=restart, claims=claims)
    return played.order


STEADY: list[float | None] = [1000.0, 1001.0, 1000.0, 1001.0, 1000.0]
WILD: list[float | None] = [1000.0, 2000.0, 500.0, 3000.0, 100.0]
RULE = "spread(rate) < 1%"


def test_a_steady_point_runs_no_more_than_the_least(played: Played, tmp_path: Path) -> None:
    order = play(played, tmp_path, [point(least=2, most=5, until=RULE)], one=STEADY)
    assert order == [("A", "one", 1), ("A", "one", 2)]


def test_a_wild_point_runs_until_its_budget_ends(played: Played, tmp_path: Path) -> None:
    order = play(played, tmp_path, [point(least=2, most=5, until=RULE)], one=WILD)
    assert [repetition for *_, repetition in order] == [1, 2, 3, 4, 5]


def test_the_interval_of_a_point_is_looked_at_after_3_6_and_12_runs(played: Played, tmp_path: Path) -> None:
    # 900 beside two of 1000: the half width is 15 % of the mean; beside five it is 4.4 %.
    rates: list[float | None] = [900.0, *[1000.0] * 11]
    order = play(played, tmp_path, [point(least=2, most=12, until="interval(rate) < 5%")], one=rates)
    assert [repetition for *_, repetition in order] == [1, 2, 3, 4, 5, 6]


def test_points_that_agree_by_chance_are_not_known_if_all_others_scatter(played: Played, tmp_path: Path) -> None:
    """Of five points, whose rates come in turns, one has equal rates three times."""
    scatter = [(1000.0, 900.0, 1100.0), (1000.0, 1100.0, 900.0), (900.0, 1000.0, 1100.0), (1100.0, 1000.0, 910.0)]
    points = [point(scenario, least=3, most=6, until="interval(rate) < 5%") for scenario in "ABCDE"]
    first = [rate for row in zip((1000.0, 1001.0, 1000.0), *scatter, strict=False) for rate in row]
    by_point = [rate for column in range(5) for rate in first[column::5]]
    order = play(played, tmp_path, points, one=[*by_point, *[1000.0] * 15])
    assert [repetition for scenario, _, repetition in order if scenario == "A"] == [1, 2, 3, 4, 5, 6]


def test_a_budget_is_spent_on_the_points_that_are_open(played: Played, tmp_path: Path) -> None:
    asked: list[dict[SeriesKey, list[float]]] = []

    def find_open(played: Mapping[SeriesKey, PlayedRuns], seconds_left: float) -> list[SeriesKey]:
        assert 0 < seconds_left <= 60
        asked.append({key: [rates["rate.work"] for rates in runs.rates.values()] for key, runs in played.items()})
        return [("one", "B", "")] if len(asked) < 3 else []

    points = [point("A", most=12, until=RULE), point("B", most=12, until=RULE)]
    seen: list[Progress] = []
    order = play(played, tmp_path, points, seen, budget=Budget(60.0, find_open), one=[1000.0] * 20)
    # Each point once; then the open one up to the looks at 3 and at 6 runs; at the third nothing is open.
    assert order == [("A", "one", 1), *(("B", "one", repetition) for repetition in range(1, 7))]
    assert [len(rates["one", "B", ""]) for rates in asked] == [1, 3, 6]
    assert asked[0]["one", "A", ""] == [pytest.approx(1000, rel=0.01)]
    assert all(progress.seconds_left is not None and progress.seconds_left <= 60 for progress in seen)
    assert seen[-1].rate == pytest.approx(1000, rel=0.01)


def test_what_comes_before_all_runs_takes_nothing_of_the_budget(played: Played, tmp_path: Path) -> None:
    order: list[str] = []
    left: list[float] = []

    async def wait() -> None:
        await asyncio.sleep(2.0)
        order.append("waited")

    def watch(progress: Progress) -> None:
        order.append(progress.phase)
        left.append(progress.seconds_left or 0.0)

    played.rates = {"one": iter(STEADY)}
    budget = Budget(60.0, lambda *_: ())
    conducted(
        tmp_path, [point("A", most=3, until=RULE)], systems=[FakeSystem("one")], agents=1, watch=watch, budget=budget,
        before_runs=wait,
    )  # fmt: skip
    assert order[0] == "waited"
    assert "measure" in order
    assert left[0] > 59.0


def test_runs_that_are_not_steady_do_not_count(played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[SeriesKey, PlayedRuns]] = []
    play_steadily = played.play

    async def play_unsteadily(one: RunExecution, running: Running) -> RunOutcome:
        return replace(await play_steadily(one, running), unsteady="the backlog grew")

    monkeypatch.setattr(played, "play", play_unsteadily)
    budget = Budget(60.0, lambda runs, _: asked.append(runs) or ())  # type: ignore[func-returns-value]
    play(played, tmp_path, [point("A", most=3, until=RULE)], budget=budget, one=STEADY)
    (runs,) = asked[0].values()
    assert (runs.valid, runs.attempts) == (0, 1)
    assert runs.flagged is not None
    assert runs.flagged["rate.work"] == pytest.approx(1000, rel=0.01)


def test_what_decides_soonest_is_played_first_and_up_to_its_own_next_look(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_BETWEEN_LOOKS", 1e9)
    keys = [[("one", "C", "")], [("one", "B", ""), ("one", "C", "")], []]
    points = [point(scenario, most=12, until=RULE) for scenario in "ABC"]
    order = play(played, tmp_path, points, budget=Budget(60.0, lambda *_: keys.pop(0)), one=[1000.0] * 20)
    assert [scenario for scenario, *_ in order] == [*"ABC", *"CC", *"BB", *"CCC"]


def test_after_a_while_there_is_another_look(played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was chosen at the look before is forgotten: the claim of B may be decided by the runs of A."""
    keys = [[("one", "A", ""), ("one", "B", "")], []]
    monkeypatch.setattr(rounds, "_BETWEEN_LOOKS", 0)
    points = [point(scenario, most=12, until=RULE) for scenario in "AB"]
    order = play(played, tmp_path, points, budget=Budget(60.0, lambda *_: keys.pop(0)), one=[1000.0] * 20)
    assert [scenario for scenario, *_ in order] == [*"AB", *"AA"]


def test_a_disturbed_run_is_repeated_after_the_others(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What disturbs the machine mostly goes on for a while. Beyond the least number the round is completed first."""
    disturbed = [("A", 1), ("A", 3)]
    play_quietly = played.play

    async def play_disturbed(one: RunExecution, running: Running) -> RunOutcome:
        outcome, name = await play_quietly(one, running), (one.point.scenario, one.repetition)
        if name in disturbed and one.system.label == "one":
            disturbed.remove(name)
            return replace(outcome, disturbed="by a test")
        return outcome

    monkeypatch.setattr(played, "play", play_disturbed)
    points = [point("A", least=1, most=3), point("B", least=1, most=1)]
    order = play(played, tmp_path, points, one=[1000.0] * 9, other=[1000.0] * 9)
    assert order == [
        ("A", "one", 1), ("A", "other", 1), ("B", "one", 1), ("B", "other", 1), ("A", "one", 1),
        ("A", "other", 2), ("A", "one", 2), ("A", "one", 3), ("A", "other", 3), ("A", "one", 3),
    ]  # fmt: skip


def test_when_the_time_is_over_every_point_has_its_least_number_of_runs(played: Played, tmp_path: Path) -> None:
    points = [point("A", most=12, until=RULE), point("B", least=2, most=12, until=RULE)]
    order = play(played, tmp_path, points, budget=Budget(0.0), one=WILD)
    assert order == [("A", "one", 1), ("B", "one", 1), ("B", "one", 2)]


def test_looks_at_the_means_are_counted(played: Played, tmp_path: Path) -> None:
    """Only those: a rule that looks at the width says nothing of the mean."""
    for budget, looks in ((None, 1), (Budget(9.0), 1), (Budget(9.0, lambda *_: ()), 4)):
        played.rates = {"one": iter([1000.0] * 12)}
        folder = conducted(
            tmp_path, [point(least=1, most=12, until=RULE)], systems=[FakeSystem("one")], agents=1, budget=budget
        )
        assert folder.meta()["looks"] == looks


def test_every_repetition_begins_with_a_new_start_if_it_is_wanted(played: Played, tmp_path: Path) -> None:
    play(played, tmp_path, [point("A", most=3), point("B", most=1)], restart=True, one=STEADY)
    assert FakeSystem.starts["one"] == 3


def test_a_known_point_still_runs_the_least(played: Played, tmp_path: Path) -> None:
    assert len(play(played, tmp_path, [point(least=4, most=5, until=RULE)], one=STEADY)) == 4


def test_without_a_rule_the_budget_is_used(played: Played, tmp_path: Path) -> None:
    assert len(play(played, tmp_path, [point(least=1, most=3)], one=STEADY)) == 3


def test_a_broken_run_tells_nothing_about_the_rate_but_uses_the_budget(played: Played, tmp_path: Path) -> None:
    order = play(played, tmp_path, [point(least=2, most=4, until=RULE)], one=[1000.0, None, 1000.0, 1.0])
    assert [repetition for *_, repetition in order] == [1, 2, 3]


def test_systems_take_turns_and_one_that_is_known_leaves_the_round(played: Played, tmp_path: Path) -> None:
    points = [point("A", least=2, most=4, until=RULE), point("B", least=1, most=1)]
    order = play(played, tmp_path, points, steady=STEADY, wild=WILD)
    assert order == [
        ("A", "steady", 1), ("A", "wild", 1), ("A", "wild", 2), ("A", "steady", 2),
        ("B", "steady", 1), ("B", "wild", 1), ("A", "wild", 3), ("A", "wild", 4),
    ]  # fmt: skip


A_CLAIM = Claim(id="faster", says="B is faster.", source="-", check="rate.received[B] / rate.received[A] > 1")


def test_points_that_a_claim_compares_take_turns(played: Played, tmp_path: Path) -> None:
    """A drift of the machine changes both alike. The systems start anew for each round, not for each point."""
    points = [point(scenario, least=3, most=3) for scenario in "ABC"]
    order = play(played, tmp_path, points, restart=True, claims=[A_CLAIM], one=[1000.0] * 9)
    assert order == [
        *(("A", "one", 1), ("B", "one", 1), ("B", "one", 2), ("A", "one", 2), ("A", "one", 3), ("B", "one", 3)),
        *(("C", "one", 1), ("C", "one", 2), ("C", "one", 3)),
    ]
    assert FakeSystem.starts["one"] == 5


def test_they_take_turns_as_long_as_both_are_open(played: Played, tmp_path: Path) -> None:
    looks = [[("one", "B", ""), ("one", "A", "")], [("one", "B", "")], []]
    points = [point(scenario, most=12, until=RULE) for scenario in "AB"]
    budget = Budget(60.0, lambda *_: looks.pop(0))
    order = play(played, tmp_path, points, budget=budget, claims=[A_CLAIM], one=[1000.0] * 20)
    assert [scenario for scenario, *_ in order] == [*"AB", *"BAAB", *"BBB"]


def test_a_system_stays_up_from_the_first_point_to_the_last(played: Played, tmp_path: Path) -> None:
    play(played, tmp_path, [point("A", most=2), point("B", most=2)], one=STEADY, two=STEADY)
    assert FakeSystem.starts == {"one": 1, "two": 1, "one stopped": 1, "two stopped": 1}


def test_a_system_that_keeps_messages_of_an_earlier_run_is_started_anew(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeSystem, "empty", False)
    play(played, tmp_path, [point(most=3)], one=STEADY)
    assert FakeSystem.starts == {"one": 3, "one stopped": 3}


def test_after_a_broken_run_the_system_is_started_anew(played: Played, tmp_path: Path) -> None:
    play(played, tmp_path, [point(most=3)], one=[1000.0, None, 1000.0])
    assert FakeSystem.starts == {"one": 2, "one stopped": 2}


def test_progress_counts_the_runs_and_never_more_than_it_expects(played: Played, tmp_path: Path) -> None:
    seen: list[Progress] = []
    points = [point("A", least=2, most=4, until=RULE), point("B")]
    play(played, tmp_path, points, seen, steady=STEADY, wild=WILD)
    assert [progress.runs_done for progress in seen] == list(range(8))
    assert all(progress.runs_done < progress.runs_expected for progress in seen)
    assert (seen[0].runs_expected, seen[-1].runs_expected) == (6, 8)
    assert {(progress.phase, progress.phase_seconds) for progress in seen} == {("measure", MEASURE)}


def test_a_run_with_an_empty_measure_phase_is_played_again_with_a_longer_one(played: Played, tmp_path: Path) -> None:
    seen: list[Progress] = []
    order = play(played, tmp_path, [point(least=2, most=2)], seen, one=[0.0, 0.0, 1000.0, 1000.0])
    assert [repetition for *_, repetition in order] == [1, 1, 1, 2]
    assert [progress.phase_seconds for progress in seen] == [MEASURE, 2 * MEASURE, 4 * MEASURE, MEASURE]
    assert [(progress.runs_done, progress.runs_expected) for progress in seen] == [(0, 2), (0, 2), (0, 2), (1, 2)]


def test_a_system_that_never_delivers_is_not_played_for_ever(played: Played, tmp_path: Path) -> None:
    order = play(played, tmp_path, [point(least=1, most=1)], one=[0.0] * 5)
    assert len(order) == 5


def test_a_share_of_the_peak_is_one_of_what_the_producers_reached(played: Played, tmp_path: Path) -> None:
    """The peak of a system is the mean of its runs, for each of the copies."""
    peak = point(least=2, most=2)
    half = peak.model_copy(update={"name": "rate=50%", "peak_share": 0.5})
    played.copies = 4.0
    order = play(
        played, tmp_path, [peak, half], one=[1000.0, 3000.0, 900.0, 900.0], other=[2000.0, 6000.0, 900.0, 900.0]
    )
    assert len(order) == 8
    assert played.paces["one"] == [None, None, 250.0, 250.0]
    assert played.paces["other"] == [None, None, 500.0, 500.0]


def test_a_share_of_an_unknown_peak_is_not_played(played: Played, tmp_path: Path) -> None:
    peak = point(least=1, most=1)
    half = peak.model_copy(update={"name": "rate=50%", "peak_share": 0.5})
    assert play(played, tmp_path, [peak, half], one=[None]) == [("A", "one", 1)]


def test_a_run_that_was_played_again_leaves_no_events_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two real runs; of the first, the agents say that they had counted nothing."""
    play_really = RunExecution.play

    async def play_first_in_vain(one: RunExecution, running: Running | None) -> RunOutcome:
        outcome = await play_really(one, running)
        return outcome if one.extension else replace(outcome, counted_received=0)

    monkeypatch.setattr(RunExecution, "play", play_first_in_vain)
    folder = conducted(tmp_path, [point("A", batch=1, rate=500.0)], agents=1)
    assert folder.meta()["extended"][0] == {
        "system": "embedded", "scenario": "A", "point": "", "reason": "nothing was counted", "measure": 2 * MEASURE
    }  # fmt: skip
    (played,) = rows(folder, "runs")
    (phase,) = rows(folder, "phases", phase="measure")
    assert phase["t_end"] - phase["t_start"] >= 1.9e9 * MEASURE, "of the extended run"
    assert check_delivery(folder, played["run"], 12) > 0


def test_two_real_systems_are_interleaved(tmp_path: Path) -> None:
    points = [point("A", least=2, most=2), point("B", rate=500.0, least=2, most=2)]
    folder = conducted(tmp_path, points, systems=["embedded", "embedded:sync=off"])
    on, off = "embedded", "embedded:sync=off"
    runs = sorted(rows(folder, "runs"), key=itemgetter("run"))
    assert [(run["scenario"], run["system"], run["repetition"]) for run in runs] == [
        ("A", on, 1), ("A", off, 1), ("A", off, 2), ("A", on, 2),
        ("B", on, 1), ("B", off, 1), ("B", off, 2), ("B", on, 2),
    ]  # fmt: skip
    assert {run["status"] for run in rows(folder, "runs")} == {"complete"}
    assert [(system["name"], len(system["stamps"])) for system in folder.meta()["systems"]] == [(on, 0), (off, 1)]
