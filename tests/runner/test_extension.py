"""A run that is not steady is played again, once, with longer phases; and which runs are not, by the agents' counts."""

from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.schema import COMPLETE
from mqlab.runner.extension import Extensions, extended
from mqlab.runner.results.outcome import RunOutcome, why_unsteady
from mqlab.runner.rounds import Budget
from mqlab.runner.run import RunExecution
from mqlab.study import Phases, Point
from mqlab.systems import Running
from runner.lab import conducted, rows
from runner.points import point

PLACE = ("embedded", "A", "")
STEADY = RunOutcome(COMPLETE, counted_sent=1_000, counted_received=3_000, seconds=1.0, copies=3.0)
UNSTEADY = replace(STEADY, unsteady="arrivals differ from sends by 50%")


def one(**values: object) -> Point:
    phases = Phases(warmup=1.0, measure=2.0, drain=5.0)
    return point(least=3, most=3, batch=1).model_copy(update={"phases": phases, **values})


@pytest.mark.parametrize(
    ("changed", "drained_s", "why"),
    [
        ({}, 0.5, ""),
        ({}, 1.5, "a latency of 1.5 s was longer than the warm-up"),
        ({"counted_received": 2_850}, 0.0, ""),
        ({"counted_received": 2_849}, 0.0, "arrivals differ from sends by 5%"),
        ({"counted_received": 3_600}, 0.0, "arrivals differ from sends by 20%"),
        # One message of the producer, three copies of it, may arrive behind the edge.
        ({"counted_sent": 2, "counted_received": 3}, 0.0, ""),
        ({"counted_sent": 3, "counted_received": 5}, 0.0, "arrivals differ from sends by 44%"),
    ],
)
def test_the_agents_counts_show_that_a_run_is_not_steady(changed: dict[str, int], drained_s: float, why: str) -> None:
    assert why_unsteady(one(), replace(STEADY, **changed), drained_s) == why  # type: ignore[arg-type]


@pytest.mark.parametrize("design", [{"messages": 100}, {"load": "send"}, {"load": "receive"}, {"consume_rate": 9.0}])
def test_what_is_not_steady_by_design_is_not_judged(design: dict[str, object]) -> None:
    assert why_unsteady(one(**design), replace(STEADY, counted_received=1), 99.0) == ""


def test_longer_phases_begin_to_measure_where_the_former_ended() -> None:
    assert extended(one()).phases == Phases(warmup=3.0, measure=4.0, drain=5.0)


def test_a_run_of_which_no_time_was_counted_is_extended() -> None:
    """The lab switched to a setting, and each time its slice was over before it came in force."""
    extensions = Extensions(seconds=0.0, unsteady=True)
    assert extensions.reason(PLACE, one(), RunOutcome(COMPLETE), 3) == "nothing was counted"
    assert extensions.reason(PLACE, one(), RunOutcome(COMPLETE), 4) == ""


def test_the_longer_phases_that_slow_switches_need_stay_for_later_runs() -> None:
    extensions = Extensions(seconds=0.0, unsteady=True)
    assert extensions.reason(PLACE, one(), RunOutcome(COMPLETE), 0)
    assert extensions.current(PLACE, one()) == one()
    switched = one(switch=0.4)
    assert extensions.reason(PLACE, switched, RunOutcome(COMPLETE), 0)
    assert extensions.reason(PLACE, extended(switched), RunOutcome(COMPLETE), 1)
    assert extensions.current(PLACE, switched) == extended(extended(switched))


def test_an_unsteady_run_is_extended_once_and_later_ones_begin_so() -> None:
    extensions = Extensions(seconds=1_000.0, unsteady=True)
    assert extensions.current(PLACE, one()) == one()
    assert extensions.reason(PLACE, one(), STEADY, 0) == ""
    assert extensions.reason(PLACE, one(), replace(UNSTEADY, disturbed="by cc1"), 0) == "", "it is repeated instead"
    assert extensions.reason(PLACE, one(), UNSTEADY, 0) == UNSTEADY.unsteady
    assert extensions.current(PLACE, one()) == extended(one())
    assert extensions.reason(PLACE, extended(one()), UNSTEADY, 1) == "", "it is flagged"
    assert extensions.reason(("other", "A", ""), one(), UNSTEADY, 0) == UNSTEADY.unsteady


def test_longer_phases_take_a_quarter_of_the_time_at_most() -> None:
    """The discarded run has 3 s, and each of three others 4 s more than it would have had: 15 s, then 30 s."""
    extensions = Extensions(seconds=119.0, unsteady=True)
    assert extensions.reason(("one", "A", ""), one(), UNSTEADY, 0)
    assert not extensions.reason(("two", "A", ""), one(), UNSTEADY, 0)
    enough = Extensions(seconds=120.0, unsteady=True)
    assert [bool(enough.reason((name, "A", ""), one(), UNSTEADY, 0)) for name in ("one", "two", "three")] == [
        True, True, False,
    ]  # fmt: skip


# The runs themselves take too little time for an extension: there is more of it, or a budget.
@pytest.mark.parametrize(("share", "budget"), [(9.0, None), (1 / 4, Budget(60.0, lambda *_: ()))])
def test_a_run_is_extended_for_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, budget: Budget | None
) -> None:
    """Two real repetitions; of the first run, the agents say that it was not steady."""
    play_really = RunExecution.play
    phases: list[Phases] = []

    async def play_unsteadily(run: RunExecution, running: Running | None) -> RunOutcome:
        phases.append(run.point.phases)
        outcome = await play_really(run, running)
        return replace(outcome, unsteady="" if len(phases) > 1 else UNSTEADY.unsteady, disturbed="")

    monkeypatch.setattr(RunExecution, "play", play_unsteadily)
    monkeypatch.setattr("mqlab.runner.extension._EXTENDED_SHARE", share)
    short = point("A", batch=1, rate=500.0, least=2, most=2)
    folder = conducted(tmp_path, [short], agents=1, watch_noise=True, budget=budget)
    assert phases == [short.phases, extended(short).phases, extended(short).phases]
    (entry,) = folder.meta()["extended"]
    assert (entry["reason"], entry["measure"]) == (UNSTEADY.unsteady, extended(short).phases.measure)
    assert sorted((run["run"], run["repetition"]) for run in rows(folder, "runs")) == [(1, 1), (2, 2)]
