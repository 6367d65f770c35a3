"""The language of goals and gates, and what is said of a wrong one."""

from pathlib import Path

import pytest

from mqlab.study import StudyError, load_study
from mqlab.study.language.expression import ExpressionError
from mqlab.study.language.gate import parse_gate, parse_goal


@pytest.mark.parametrize(
    ("text", "metric", "relation", "limit", "is_relative"),
    [
        ("latency.p99 > +10%", "latency.p99", ">", 1.1, True),
        ("rate.work < -5%", "rate.work", "<", 0.95, True),
        ("rate.received < 50k/s", "rate.received", "<", 50_000, False),
        ("latency.p99.9>=10ms", "latency.p99.9", ">=", 0.01, False),
        ("latency.p99.9[A, size=1KiB] <= 1.5s", "latency.p99.9", "<=", 1.5, False),
        ("cpu.broker > 80%", "cpu.broker", ">", 80, False),
        ("rss.broker > 1GiB", "rss.broker", ">", 2**30, False),
        ("bytes.received < 10MB/s", "bytes.received", "<", 1e7, False),
        ("copies < 1.5", "copies", "<", 1.5, False),
    ],
)
def test_a_condition(text: str, metric: str, relation: str, limit: float, is_relative: bool) -> None:
    gate = parse_gate(text)
    assert (gate.metric, gate.relation, gate.is_relative) == (metric, relation, is_relative)
    assert gate.limit == pytest.approx(limit)


@pytest.mark.parametrize(("goal", "fails_if"), [("<", ">="), ("<=", ">"), (">", "<="), (">=", "<")])
def test_a_goal_is_missed_where_its_opposite_holds(goal: str, fails_if: str) -> None:
    gate = parse_goal(f"latency.p99 {goal} 5ms")
    assert (gate.relation, gate.text, gate.is_goal) == (fails_if, f"latency.p99 {goal} 5ms", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency.p99", "'latency.p99' is not a condition like latency.p99 > 10ms or rate.received[A] < 50k/s"),
        ("latency.p98 > 1ms", "there is no metric latency.p98; did you mean 'latency.p99'?"),
        ("latency.p99 > fast", "'latency.p99 > fast': 'fast' is not a time; write 300ms, 2s, 5min or 1h"),
        ("rate.work < 10", "'10' is not a rate; write 100/s, 5k/s or 1.5M/s"),
        ("bytes.received < 10MB", "'10MB' is not a rate of bytes; write 10MB/s"),
        ("copies < many", "'many' is not a number"),
        ("rate.work < -100%", "no metric changes by -100%; write more than -100%"),
        ("rate.work < +x", "'x' is not a share"),
        ("rate.work[A < 1/s", "'rate.work[A' is not a measure like rate.received[A]"),
        ('rate.work[A] of "x" < 1/s', "is about every system; leave out of"),
        ("spread(rate.work[A]) < 2", "is not a measure like rate.received[A]"),
    ],
)
def test_what_is_said_of_a_wrong_one(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse_gate(text)
    assert message in str(error.value)


STUDY = """study: mine
title: Mine
scenarios:
  A: {queues: 1, producers: 1, consumers: 1, message: {size: [12B, 1KiB]}}
goals:
  - rate.received > 1k/s
  - GOAL
"""


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ("latency.p99 < +10%", "'latency.p99 < +10%' compares two systems; a goal has no sign"),
        ("latency.p99[B] < 1ms", "there is no scenario 'B'; accepted: A"),
        ("latency.p99[A, size=2KiB] < 1ms", "scenario A has no point with size=2KiB; did you mean '1KiB'?"),
        ("latency.p99[A, colour=red] < 1ms", "scenario A has no parameter 'colour'"),
        ("latency.p99", "'latency.p99' is not a condition"),
        (
            "confirm.p99 < 5ms",
            "'confirm.p99 < 5ms': no point has confirm.p99: no producer waits for a confirmation (send: free)",
        ),
        (
            "response.p99 < 5ms",
            "'response.p99 < 5ms': no point has response.p99: no request is sent (pattern: request-reply)",
        ),
        (
            "rate.round_trips[A] > 1k/s",
            "'rate.round_trips[A] > 1k/s': no point has rate.round_trips: no request is sent",
        ),
        (
            'fault.recovery["*"] < 5s',
            "'fault.recovery[\"*\"] < 5s': no point has fault.recovery: no fault is planned (faults)",
        ),
    ],
)
def test_a_study_names_the_line_of_a_wrong_goal(tmp_path: Path, goal: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY.replace("GOAL", f"'{goal}'"))
    with pytest.raises(StudyError) as error:
        load_study(file)
    assert f"mine.yaml:7: goals.2: {message}" in str(error.value)


def test_a_study_has_its_goals(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY.replace("GOAL", "'latency.p99[A, size=1KiB] < 5ms'"))
    study = load_study(file)
    assert [goal.text for goal in study.goals] == ["rate.received > 1k/s", "latency.p99[A, size=1KiB] < 5ms"]
    small, large = study.points("full")
    assert [goal.matches(small) for goal in study.goals] == [True, False]
    assert [goal.matches(large) for goal in study.goals] == [True, True]


@pytest.mark.parametrize(
    ("goal", "scenario"),
    [
        (
            "response.p99 < 5ms",
            "{pattern: request-reply, queues: 1, requesters: 1, responders: 1, message: {size: 1KiB}}",
        ),
        ("confirm.p99 < 5ms", "{queues: 1, producers: 1, consumers: 1, message: {size: 12B}, send: confirmed}"),
    ],
)
def test_a_goal_needs_one_point_that_can_have_its_metric(tmp_path: Path, goal: str, scenario: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY.replace("GOAL", f"'{goal}'").replace("goals:", f"  B: {scenario}\ngoals:"))
    assert load_study(file).goals[1].text == goal


def test_a_study_that_was_run_is_read_whatever_its_goals(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(STUDY.replace("GOAL", "'fault.recovery < 5s'"))
    assert len(load_study(file, own=True).goals) == 2
