"""Points for the tests: a fraction of a second each."""

from typing import Any

from mqlab.study import Phases, Point, Repeat
from mqlab.study.repetition import RepetitionRule

WARMUP, MEASURE = 0.1, 0.3


def point(
    scenario: str = "A", *, least: int = 1, most: int = 1, until: str | None = None, measure: float = MEASURE,
    drain: float = 30, **changes: Any,
) -> Point:  # fmt: skip
    """One producer and one consumer of a queue, as fast as it goes, unless the changes say otherwise."""
    usual: dict[str, Any] = {
        "scenario": scenario, "name": "", "domain": "queue", "destinations": 1, "producers": 1, "consumers": 1,
        "size": 12, "persistent": False, "acknowledge": "auto", "transaction": 0, "send": "free", "batch": 256,
        "rate": None, "connections": "each",
    }  # fmt: skip
    return Point(**{
        **usual, **changes, "phases": Phases(warmup=WARMUP, measure=measure, drain=drain),
        "repeat": Repeat(until=RepetitionRule.parse(until) if until else None, least=least, most=most),
    })  # fmt: skip


def asking(scenario: str = "RR", **changes: Any) -> Point:
    """Six requesters and two responders at one pair of queues, unless the changes say otherwise."""
    usual: dict[str, Any] = {
        "pattern": "request-reply", "producers": 0, "consumers": 0, "requesters": 6, "responders": 2, "size": 64,
        "batch": 1,
    }  # fmt: skip
    return point(scenario, **{**usual, **changes})
