"""A point: one combination of swept parameters, with every value resolved. It is what an agent is told to play."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from mqlab.study.repetition import RepetitionRule


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def _rule(value: object) -> object:
    return RepetitionRule.parse(value) if isinstance(value, str) else value


class Phases(_Frozen):
    """Seconds. `drain` is the most the consumers get to receive what is still under way."""

    warmup: float
    measure: float
    drain: float


class Repeat(_Frozen):
    """A point runs at least `least` times, then until the rule holds, and never more than `most` times."""

    until: Annotated[RepetitionRule | None, BeforeValidator(_rule), PlainSerializer(lambda rule: rule and str(rule))]
    least: int
    most: int


class Point(_Frozen):
    scenario: str
    name: str  # the swept values ("size=1KiB, producers=10"); "" when nothing is swept
    # Every parameter by the last word of its key, as it is shown, swept or not: exhibits and published values find the
    # point by them ({"size": "1KiB", "persistent": "no", "trace": "low", ...}).
    parameters: dict[str, str] = {}
    # The name of the point of this scenario that this one is compared with; None: with none.
    base: str | None = None
    pattern: Literal["one-way", "request-reply"] = "one-way"
    domain: Literal["topic", "queue"]
    destinations: int  # with request-reply: pairs of a request queue and a reply queue
    producers: int  # 0 with request-reply
    consumers: int
    requesters: int = 0
    responders: int = 0
    clients: int = 0  # connections among which the requesters are dealt out; 0: as `connections` says
    size: int  # bytes of the body
    persistent: bool
    acknowledge: Literal["auto", "dups_ok", "client"]
    transaction: int  # messages a transaction; 0 when the session is not transacted
    selector: str = ""  # of every consumer; it must pass every message
    durable: bool = False  # the subscriptions to topics
    prefetch: int | None = None  # messages a consumer has room for; None: what keeps it busy
    load: Literal["both", "send", "receive"] = "both"  # which side works in the measure phase
    messages: int | None = None  # a fixed amount of work over all producers or requesters; None: by time
    preload: int = 0  # messages on each reply queue (or queue) that nobody takes
    send: Literal["confirmed", "free"]
    batch: int  # messages that move together
    rate: float | None  # messages/s over all producers; None as fast as the system takes them
    consume_rate: float | None = None  # messages/s over all consumers; None as fast as they come
    connections: Literal["each", "shared"]
    topology: Literal["client", "bindings", "distributed"] = "client"
    settings: dict[str, str] = {}  # of the system, over those it was named with
    client_cpu: float | None = None  # percent of one core that no agent should exceed, or its figures are flagged
    phases: Phases
    repeat: Repeat

    @property
    def label(self) -> str:
        return f"{self.scenario} ({self.name})" if self.name else self.scenario

    @property
    def work(self) -> str:
        """The metric that `rate.work` stands for here."""
        if self.pattern == "request-reply":
            return "rate.round_trips"
        return "rate.sent" if self.load == "send" else "rate.received"

    @property
    def is_unthrottled(self) -> bool:
        """Whether producers wait neither for confirmations nor for a schedule."""
        one_way = self.pattern == "one-way" and not self.transaction
        return one_way and self.send == "free" and self.rate is None

    @property
    def seconds(self) -> float:
        """The planned time of one run, 0 for a fixed amount of work; draining comes on top and ends when it is done."""
        return self.phases.warmup + self.phases.measure

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Point":
        return cls.model_validate_json(text)
