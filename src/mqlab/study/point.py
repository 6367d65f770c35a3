"""A point: one combination of swept parameters, with every value resolved. Agents receive it and run it."""

from itertools import accumulate
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from mqlab.study.language.faults import PREPARED_TARGETS, Fault, FaultTarget, parse_faults
from mqlab.study.language.units import format_percent, format_rate, format_size, format_time
from mqlab.study.load.body_files import body_sizes
from mqlab.study.load.destination_shares import shares_of
from mqlab.study.load.sizes import parse_sizes
from mqlab.study.repetition import RepetitionRule
from mqlab.study.statistics import look_count

_NOT_WORKLOAD: Final = {"name", "parameters", "base", "rate", "peak_share", "profile", "phases", "repeat"}


def point_label(scenario: str, name: str) -> str:
    """How a point is called where its scenario is not told otherwise; `name`: its swept values."""
    return f"{scenario} ({name})" if name else scenario


def _part(total: int, number: int, of: int) -> int:
    """How many of `total` things the one with this number of `of` gets."""
    return total // of + (number < total % of)


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
    shares: str = ""  # of the messages that each destination gets; "": each producer sends as many
    producers: int  # 0 with request-reply
    consumers: int
    requesters: int = 0
    responders: int = 0
    clients: int = 0  # connections that the requesters share; 0: as `connections` says
    size: int  # bytes of the body; of bodies that differ, the mean
    sizes: str = ""  # a mix or a distribution of sizes; "": all bodies have the same
    body: str = ""  # which files the bodies are, or which template makes them; "": the lab's filler
    contents: tuple[str, ...] = ()  # of these files, encoded
    properties: dict[str, str] = {}  # of messages, by name: the values that they take
    priority: str = ""  # header of messages: the values that it takes; "": the default of the system
    expires: float = 0.0  # seconds after which the system may drop a message; 0: never
    key: str = ""  # the values of the message group or record key; "": messages have none
    seed: int = 1  # of everything that is drawn: every run of the point has the same messages
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
    switch: float = 0.0  # seconds of a slice in which the system has the settings of one point; 0: each point has runs
    phases: Phases
    repeat: Repeat

    @property
    def has_varied_bodies(self) -> bool:
        """Whether the bodies differ in more than their id."""
        return bool(self.sizes or self.contents)

    @property
    def has_headers(self) -> bool:
        """Whether messages have headers beyond the default ones."""
        return bool(self.priority or self.expires or self.key)

    @property
    def body_sizes(self) -> tuple[int, ...]:
        """Every size that a body may have, in bytes."""
        if self.contents:
            return body_sizes(self.body, self.contents)
        return parse_sizes(self.sizes).sizes if self.sizes else (self.size,)

    @property
    def bodies(self) -> str:
        """The sizes of the bodies, as the study writes them."""
        if self.contents:
            least, most = min(self.body_sizes), max(self.body_sizes)
            count = f"{len(self.contents)}, " if len(self.contents) > 1 else ""
            return f"{self.body} ({count}{format_size(least)} to {format_size(most)})"
        return self.sizes.replace(" +", ",") or format_size(self.size)

    @property
    def label(self) -> str:
        return point_label(self.scenario, self.name)

    @property
    def work(self) -> str:
        """The metric that `rate.work` means for this point."""
        if self.pattern == "request-reply":
            return "rate.round_trips"
        return "rate.sent" if self.load == "send" else "rate.received"

    def why_without(self, metric: str) -> str:
        """Why no run of the point has this metric, whatever the system; "" if a run may have it."""
        kind, requests = metric.partition(".")[0], self.pattern == "request-reply"
        of_requests = kind == "response" or metric.endswith(".round_trips")
        of_receipts = kind == "latency" or metric in ("rate.received", "bytes.received", "copies")
        of_sends = kind in ("latency", "confirm") or metric == "rate.sent"
        unconfirmed = self.send == "free" and not self.transaction and not requests
        reasons = {
            "no fault is planned (faults)": kind == "fault" and not self.faults,
            "no request is sent (pattern: request-reply)": of_requests and not requests,
            "nothing is received (load: send)": of_receipts and self.load == "send",
            "nothing is sent while it is measured (load: receive)": of_sends and self.load == "receive",
            "no producer waits for a confirmation (send: free)": kind == "confirm" and unconfirmed,
        }
        return next((reason for reason, applies in reasons.items() if applies), "")

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
        if self.profile:
            return self.parameters.get("rate", self.profile)
        if self.think:
            return f"max, {format_time(self.think)} between messages"
        return "max" if self.rate is None else format_rate(self.rate)

    @property
    def workload(self) -> str:
        """Everything but the rate and the length of the runs: what a point has in common with that of its peak."""
        return self.model_dump_json(exclude=_NOT_WORKLOAD)

    @property
    def copies(self) -> int:
        """The deliveries of a message: one, or one to every consumer of its topic."""
        return max(1, self.consumers // self.destinations) if self.domain == "topic" else 1

    def rate_parts(self, destination: int) -> float:
        """A producer to this destination has one of so many equal parts of the rate."""
        if not self.shares:
            return self.producers
        return self._producers_to(destination) / shares_of(self.shares, self.destinations)[destination]

    def message_share(self, number: int) -> int | None:
        """How many of a fixed number of messages this producer or requester sends; None: there is no fixed number."""
        if self.messages is None:
            return None
        if not self.shares:
            return _part(self.messages, number, self.producers or self.requesters)
        place, destination = divmod(number, self.destinations)
        ends = [0.0, *accumulate(shares_of(self.shares, self.destinations))]
        # Rounding the ends of the parts, not the parts, makes them as many messages as there are.
        of_destination = round(ends[destination + 1] * self.messages) - round(ends[destination] * self.messages)
        return _part(of_destination, place, self._producers_to(destination))

    def _producers_to(self, destination: int) -> int:
        return _part(self.producers, destination, self.destinations)

    @property
    def is_unthrottled(self) -> bool:
        """Whether producers wait neither for confirmations nor for a moment."""
        one_way = self.pattern == "one-way" and not self.transaction
        return one_way and self.send == "free" and self.loop == "closed" and not self.think

    @property
    def planned_faults(self) -> tuple[Fault, ...]:
        return parse_faults(self.faults)

    @property
    def prepared_targets(self) -> frozenset[FaultTarget]:
        """The targets of its faults that a system must be started ready for."""
        return PREPARED_TARGETS.intersection(fault.target for fault in self.planned_faults)

    @property
    def seconds(self) -> float:
        """The planned seconds of one run without draining; 0 for a fixed amount of work."""
        return self.phases.warmup + self.phases.measure

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Point":
        return cls.model_validate_json(text)
