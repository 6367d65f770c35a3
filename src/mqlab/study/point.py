"""A point: one combination of swept parameters, with every value resolved. Agents receive it and run it.

`estimate` gives the number of runs of points and their time, before anything has run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from mqlab.study.language.faults import Fault, parse_faults
from mqlab.study.language.units import format_percent, format_rate, format_time
from mqlab.study.repetition import RepetitionRule
from mqlab.study.statistics import look_count

_NOT_WORKLOAD: Final = {"name", "parameters", "base", "rate", "peak_share", "profile", "phases", "repeat"}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def _rule(value: object) -> object:
    return RepetitionRule.parse(value) if isinstance(value, str) else value


class Phases(_Frozen):
    """Durations in seconds. `drain` is the longest time that consumers get to receive the messages in flight."""

    warmup: float
    measure: float
    drain: float


class Repeat(_Frozen):
    """A point runs at least `least` times, then until the rule holds, and never more than `most` times."""

    until: Annotated[RepetitionRule | None, BeforeValidator(_rule), PlainSerializer(lambda rule: rule and str(rule))]
    least: int
    most: int

    @property
    def looks(self) -> int:
        """How often the lab looks at the runs, to decide whether it needs more. A fixed number is looked at once."""
        return 1 if self.least == self.most else look_count(self.most)


class Point(_Frozen):
    scenario: str
    name: str  # the swept values ("size=1KiB, producers=10"); "" when nothing is swept
    # The text of every parameter by its short name, swept or not. Exhibits and published values select points by them:
    # {"size": "1KiB", "persistent": "no", "trace": "low", ...}.
    parameters: dict[str, str] = {}
    # The name of the point in this scenario that this one is compared with, or None.
    base: str | None = None
    pattern: Literal["one-way", "request-reply"] = "one-way"
    domain: Literal["topic", "queue"]
    destinations: int  # with request-reply: pairs of a request queue and a reply queue
    producers: int  # 0 with request-reply
    consumers: int
    requesters: int = 0
    responders: int = 0
    clients: int = 0  # connections that the requesters share; 0: as `connections` says
    size: int  # bytes of the body
    persistent: bool
    acknowledge: Literal["auto", "dups_ok", "client"]
    transaction: int  # messages in a transaction; 0: the session is not transacted
    selector: str = ""  # of every consumer; it must match every message
    durable: bool = False  # whether subscriptions to topics are durable
    prefetch: int | None = None  # messages that a consumer buffers; None: chosen by the driver
    load: Literal["both", "send", "receive"] = "both"  # which side works in the measure phase
    messages: int | None = None  # total of all producers or requesters; None: the run is limited by time
    preload: int = 0  # messages that stay on each reply queue (or queue) during the run
    send: Literal["confirmed", "free"]
    batch: int = 1  # messages that a producer sends before it waits for their confirmations
    rate: float | None  # messages/s of all producers; None: as fast as the system accepts them
    profile: str = ""  # in place of the rate: how it changes over the time of the run
    think: float = 0.0  # seconds between two messages of a role that has no rate
    peak_share: float | None = None  # the rate is this share of the peak: the runner measures it with `rate: max` first
    consume_rate: float | None = None  # messages/s of all consumers; None: as fast as they arrive
    connections: Literal["each", "shared"]
    topology: Literal["client", "bindings", "distributed"] = "client"
    settings: dict[str, str] = {}  # of the system; they override those of the command line
    faults: str = ""  # what happens to the system, or to the line to it, in each run; "": nothing
    client_cpu: float | None = None  # percent of a core; the report flags runs whose agents exceed it
    phases: Phases
    repeat: Repeat

    @property
    def label(self) -> str:
        return f"{self.scenario} ({self.name})" if self.name else self.scenario

    @property
    def work(self) -> str:
        """The metric that `rate.work` means for this point."""
        if self.pattern == "request-reply":
            return "rate.round_trips"
        return "rate.sent" if self.load == "send" else "rate.received"

    @property
    def loop(self) -> Literal["open", "closed"]:
        """Open: a schedule plans the messages. Closed: the next message waits for the system."""
        return "closed" if self.rate is None and self.peak_share is None and not self.profile else "open"

    @property
    def is_paced(self) -> bool:
        """Whether a schedule sets its rate, which is then hardly noisy."""
        return self.loop == "open" or self.consume_rate is not None

    @property
    def pace(self) -> str:
        """The rate, as the study writes it."""
        if self.peak_share is not None:
            return f"{format_percent(self.peak_share)} of the peak"
        if self.profile or self.think:
            return self.profile or f"max, {format_time(self.think)} between messages"
        return "max" if self.rate is None else format_rate(self.rate)

    @property
    def workload(self) -> str:
        """Everything but the rate and the length of the runs: what a point has in common with that of its peak."""
        return self.model_dump_json(exclude=_NOT_WORKLOAD)

    @property
    def copies(self) -> int:
        """The deliveries of a message: one, or one to every consumer of its topic."""
        return max(1, self.consumers // self.destinations) if self.domain == "topic" else 1

    @property
    def is_unthrottled(self) -> bool:
        """Whether producers wait neither for confirmations nor for a moment."""
        one_way = self.pattern == "one-way" and not self.transaction
        return one_way and self.send == "free" and self.loop == "closed" and not self.think

    @property
    def planned_faults(self) -> tuple[Fault, ...]:
        return parse_faults(self.faults)

    @property
    def seconds(self) -> float:
        """The planned seconds of one run without draining; 0 for a fixed amount of work."""
        return self.phases.warmup + self.phases.measure

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Point":
        return cls.model_validate_json(text)


@dataclass(frozen=True)
class Estimate:
    """The runs on one system: the least if every repetition rule is met at once, the most if none ever is.

    The seconds are those of warm-up and measure phases. Set-up and draining come on top, and so do at most `fixed_runs`
    runs with a fixed amount of work, because their duration is not known in advance.
    """

    least_runs: int
    most_runs: int
    least_seconds: float
    most_seconds: float
    fixed_runs: int = 0


def estimate(points: Iterable[Point]) -> Estimate:
    counted = list(points)
    return Estimate(
        sum(point.repeat.least for point in counted),
        sum(point.repeat.most for point in counted),
        sum(point.repeat.least * point.seconds for point in counted),
        sum(point.repeat.most * point.seconds for point in counted),
        sum(point.repeat.most for point in counted if point.messages is not None),
    )
