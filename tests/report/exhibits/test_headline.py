"""The headline: how long the runs were."""

from mqlab.report.exhibits.headline import lengths
from mqlab.study import Phases, Point, load_study

(POINT,) = load_study("jms-four-brokers").points("quick", ["A"])


def lasting(seconds: float, messages: int | None = None) -> Point:
    return POINT.model_copy(update={"phases": Phases(warmup=0, measure=seconds, drain=1), "messages": messages})


def test_times_and_numbers_of_messages_are_told_apart() -> None:
    points = [lasting(2), lasting(0, 500), lasting(0.4), lasting(0, 20), lasting(0, 3000), lasting(0, 40000)]
    assert lengths(points) == "400ms and 2s or 20 messages to 40,000 messages"


def test_runs_of_one_kind() -> None:
    assert lengths([lasting(2), lasting(1)]) == "1s and 2s"
    assert lengths([lasting(0, 10000)]) == "10,000 messages"
