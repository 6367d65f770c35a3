"""Two finished runs: what is compared, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.report.comparison.comparison import WORSE, compare
from mqlab.report.comparison.finished_runs import IncomparableRunsError, differing_machine, joined, run_differences
from mqlab.report.data.run_results import RunResults
from mqlab.study import load_study
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns, add_system, take_turns, whole_study


def run(write: Write, factor: float, identity: str, system: str = "embedded") -> RunResults:
    made = SyntheticRuns()
    add_system(made, system, factor)
    made.meta |= {"id": identity, "systems": [{"name": system, "version": identity, "settings": {}, "stamps": []}]}
    return RunResults.of(write(made))


def test_runs_of_one_system_are_told_apart(write: Write) -> None:
    base, new = run(write, 1.0, "monday"), run(write, 0.5, "tuesday")
    results, (first, second) = joined(base, new, ("embedded", "embedded"))
    assert (first, second) == ("embedded of monday", "embedded of tuesday")
    found = compare(results, first, second)
    assert not found.is_paired
    rates = [row for row in found.rows if row.metric == "latency.p99"]
    assert len(rates) == 8
    assert [system.version for system in results.systems] == ["monday", "tuesday"]


def test_the_rounds_of_two_runs_are_not_paired(write: Write) -> None:
    base, new = run(write, 1.0, "monday"), run(write, 0.5, "tuesday")
    results, names = joined(base, new, ("embedded", "embedded"))
    sides = [results.rounds.find(name, "rate.received", ("D", "")) for name in names]
    assert sides[0] is not None
    assert sides[1] is not None
    assert not sides[0].is_paired(sides[1])
    # In one run the same repetitions are pairs.
    both = whole_study()
    add_system(both, "other")
    take_turns(both)
    one = RunResults.of(write(both)).rounds
    pair = [one.find(name, "rate.received", ("D", "")) for name in ("embedded", "other")]
    assert pair[0] is not None
    assert pair[1] is not None
    assert pair[0].is_paired(pair[1])


def test_systems_of_two_names_keep_them(write: Write) -> None:
    base, new = run(write, 1.0, "monday"), run(write, 0.5, "tuesday", "nats")
    results, names = joined(base, new, ("embedded", "nats"))
    assert names == ("embedded", "nats")
    assert compare(results, *names).count(WORSE) == 0, "the latencies of both are the same"


def test_the_run_that_was_looked_at_more_often_widens_the_intervals(write: Write) -> None:
    base, new = run(write, 1.0, "monday"), run(write, 0.5, "tuesday")
    results, _ = joined(base, replace(new, meta={**new.meta, "looks": 5}), ("embedded", "embedded"))
    assert results.meta["looks"] == 5


def test_runs_of_two_studies_are_refused(write: Write, small: SyntheticRuns, tmp_path: Path) -> None:
    other = SyntheticRuns(load_study("sunmq-wmq-2003"))
    with pytest.raises(IncomparableRunsError, match="two studies, jms-four-brokers and sunmq-wmq-2003"):
        joined(run(write, 1.0, "one"), RunResults.of(other.write(tmp_path / "other")), ("embedded", "embedded"))
    nothing = RunResults.of(small.write(tmp_path / "nothing")).with_tables(points=())
    with pytest.raises(IncomparableRunsError, match="no point in common"):
        joined(run(write, 1.0, "one"), nothing, ("embedded", "embedded"))


def test_points_that_only_one_run_has_are_named(write: Write, small: SyntheticRuns) -> None:
    notes = run_differences(run(write, 1.0, "one"), RunResults.of(write(small)))
    assert any(
        note.startswith("Not compared, since the other run has no such point: B, C, D, E, F, G") for note in notes
    )


@pytest.mark.parametrize(
    ("key", "value", "difference"),
    [
        ("cpu", "Other CPU", "cpu Imaginary CPU 3.0 GHz and Other CPU"),
        ("cores", 64, "cores 2 and 64"),
        ("memory", 2**36, "memory 8 GiB and 64 GiB"),
        ("kernel", "6.12", "kernel 6.1 and 6.12"),
        ("java", "21", ""),
        ("memory", 8 * 2**30 - 4096, ""),
    ],
)
def test_another_machine(write: Write, key: str, value: object, difference: str) -> None:
    other = whole_study()
    other.meta["machine"] = {**other.meta["machine"], key: value}
    assert differing_machine(RunResults.of(write(whole_study())), RunResults.of(write(other))) == difference


@pytest.mark.parametrize(
    ("ids", "difference"),
    [
        (("3f9a", "3f9a"), ""),
        (("3f9a", "77b0"), "two machines of one kind, 3f9a and 77b0"),
        ((None, "77b0"), ""),  # an older version of the lab wrote none
    ],
)
def test_two_machines_of_one_kind(write: Write, ids: tuple[str | None, str], difference: str) -> None:
    both = []
    for identity in ids:
        made = whole_study()
        made.meta["machine"] = {**made.meta["machine"], "id": identity}
        both.append(RunResults.of(write(made)))
    assert differing_machine(*both) == difference


def test_a_run_that_does_not_say_its_machine(write: Write) -> None:
    other = whole_study()
    other.meta["machine"] = {}
    assert "does not say" in differing_machine(RunResults.of(write(whole_study())), RunResults.of(write(other)))
