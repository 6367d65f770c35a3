"""The rows of the pipeline's tables as values, and the systems of a run."""

from dataclasses import dataclass, field
from typing import Final

from mqlab.study.metric import is_throughput

CLEAN: Final = "clean"


def is_lower_bound(metric: str, bound_by: str | None) -> bool:
    """The agents were the bottleneck: the system can do at least this much."""
    return bound_by == "client" and is_throughput(metric)


@dataclass(frozen=True)
class System:
    """A system as it was run. Its `stamps` go wherever its figures go.

    `durability` says in words what its confirmations and acknowledgements are worth, `witnessed` what was seen of it.
    `ahead_seconds`: a free producer was ahead by what the system takes in this time at most; None: as far as it let it.
    `rehearsals`: how many runs of a second went before those that count, until it got no quicker.
    """

    name: str
    version: str
    settings: dict[str, str]
    stamps: tuple[str, ...]
    durability: dict[str, str] = field(default_factory=dict)
    witnessed: str = ""
    ahead_seconds: float | None = None
    rehearsals: int = 0


@dataclass(frozen=True)
class Measure:
    study: str
    scenario: str
    point: str
    system: str
    metric: str
    value: float
    unit: str
    ci95: float | None
    runs: int
    bound_by: str | None
    attempted: int
    void: int
    client_cpu: bool | None

    @property
    def lower_bound(self) -> bool:
        return is_lower_bound(self.metric, self.bound_by)


@dataclass(frozen=True)
class RunMeasure:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    metric: str
    value: float
    unit: str


@dataclass(frozen=True)
class Audit:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    sent: int | None
    expected: int | None
    delivered: int | None
    lost: int | None
    duplicated: int | None
    duplicated_marked: int | None
    recovered: int | None
    out_of_order: int | None
    unexpected: int | None
    status: str
    reason: str | None


@dataclass(frozen=True)
class Second:
    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    second: int
    sent: float | None
    received: float | None
    phase: str


@dataclass(frozen=True)
class Bucket:
    """`latency` is the upper edge, in seconds: of the time of messages, or of round trips."""

    scenario: str
    point: str
    system: str
    latency: float
    count: int


@dataclass(frozen=True)
class Impact:
    """`value` is the change against the point `base`, in percent: negative where there is less."""

    scenario: str
    point: str
    system: str
    metric: str
    base: str
    value: float
    low: float | None
    high: float | None
    ci95: float | None


@dataclass(frozen=True)
class Comparison:
    """`ratio` is the first system's value over the second's; `percent_faster` how far the greater of them is ahead.

    Of peaks, `over` and `parameters` are those of the peaks, and `point` is "".
    """

    scenario: str
    point: str
    over: str
    parameters: str
    first: str
    second: str
    metric: str
    ratio: float
    ci95: float | None
    faster: str
    percent_faster: float
    percent_low: float | None
    percent_high: float | None


@dataclass(frozen=True)
class Peak:
    """The greatest value over the parameters `over`; `at` are their values there, `point` is the point's name."""

    scenario: str
    system: str
    metric: str
    over: str
    parameters: str
    value: float
    unit: str
    ci95: float | None
    bound_by: str | None
    at: str
    point: str


@dataclass(frozen=True)
class Operation:
    """What the applications of one name did, as the system traced it. Times in seconds."""

    scenario: str
    point: str
    system: str
    application: str
    operation: str
    count: int
    rate: float | None
    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None
    messages: int | None
    bytes: int | None
    failed: int | None


@dataclass(frozen=True)
class Pace:
    """Messages a second within a fifth of a second that begins `seconds` after the start of the load."""

    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    seconds: float
    sent: float
    received: float
    phase: str


@dataclass(frozen=True)
class Depth:
    """One look at a broker: its messages, and how often producers were held back since the start of the load."""

    run: int
    scenario: str
    point: str
    system: str
    repetition: int
    source: str
    seconds: float
    depth: float | None
    holds: float | None
