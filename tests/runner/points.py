"""Points for the tests: a fraction of a second each."""

from typing import Literal, TypedDict, Unpack

from mqlab.study import Phases, Point, Repeat
from mqlab.study.repetition import RepetitionRule

WARMUP, MEASURE = 0.1, 0.3
# So long that what a test does when the measure phase begins comes before its end, on a busy machine too.
LONG = 4.0


class PointChanges(TypedDict, total=False):
    """The values of a point that a test chooses."""

    name: str
    base: str | None
    parameters: dict[str, str]
    pattern: Literal["one-way", "request-reply"]
    domain: Literal["topic", "queue"]
    destinations: int
    producers: int
    consumers: int
    requesters: int
    responders: int
    clients: int
    size: int
    sizes: str
    properties: dict[str, str]
    priority: str
    expires: float
    key: str
    seed: int
    persistent: bool
    acknowledge: Literal["auto", "dups_ok", "client"]
    transaction: int
    selector: str
    durable: bool
    prefetch: int | None
    load: Literal["both", "send", "receive"]
    messages: int | None
    preload: int
    send: Literal["confirmed", "free"]
    batch: int
    rate: float | None
    profile: str
    think: float
    consume_rate: float | None
    connections: Literal["each", "shared"]
    topology: Literal["client", "bindings", "distributed"]
    settings: dict[str, str]
    faults: str
    client_cpu: float | None
    switch: float


class RunChanges(PointChanges, total=False):
    """The same, and how long and how often a run of the point is."""

    least: int
    most: int
    until: str | None
    measure: float
    drain: float


def point(
    scenario: str = "A", *, least: int = 1, most: int = 1, until: str | None = None, measure: float = MEASURE,
    drain: float = 30, **changes: Unpack[PointChanges],
) -> Point:  # fmt: skip
    """One producer and one consumer of a queue, as fast as it goes, unless the changes say otherwise."""
    declared: PointChanges = {
        "name": "", "domain": "queue", "destinations": 1, "producers": 1, "consumers": 1,
        "size": 12, "persistent": False, "acknowledge": "auto", "transaction": 0, "send": "free", "batch": 256,
        "rate": None, "connections": "each", **changes,
    }  # fmt: skip
    return Point(
        scenario=scenario, **declared, phases=Phases(warmup=WARMUP, measure=measure, drain=drain),
        repeat=Repeat(until=RepetitionRule.parse(until) if until else None, least=least, most=most),
    )  # fmt: skip


def asking(scenario: str = "RR", **changes: Unpack[RunChanges]) -> Point:
    """Six requesters and two responders at one pair of queues, unless the changes say otherwise."""
    usual: RunChanges = {
        "pattern": "request-reply", "producers": 0, "consumers": 0, "requesters": 6, "responders": 2, "size": 64,
        "batch": 1, **changes,
    }  # fmt: skip
    return point(scenario, **usual)
