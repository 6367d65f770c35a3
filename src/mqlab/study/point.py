"""A point: one combination of swept parameters, with every value resolved. It is what an agent is told to play."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from mqlab.study.rule import Rule


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


def _rule(value: object) -> object:
    return Rule.parse(value) if isinstance(value, str) else value


class Phases(_Frozen):
    """Seconds. `drain` is the most the consumers get to receive what is still under way."""

    warmup: float
    measure: float
    drain: float


class Repeat(_Frozen):
    """A point runs at least `least` times, then until the rule holds, and never more than `most` times."""

    until: Annotated[Rule | None, BeforeValidator(_rule), PlainSerializer(lambda rule: rule and str(rule))]
    least: int
    most: int


class Point(_Frozen):
    scenario: str
    name: str  # the swept values ("size=1KiB, producers=10"); "" when nothing is swept
    domain: Literal["topic", "queue"]
    destinations: int
    producers: int
    consumers: int
    size: int  # bytes of the body
    persistent: bool
    acknowledge: Literal["auto"]
    transaction: int  # messages a transaction; 0 when the session is not transacted
    send: Literal["confirmed", "free"]
    batch: int  # messages that move together
    rate: float | None  # messages/s over all producers; None as fast as the system takes them
    connections: Literal["each", "shared"]
    phases: Phases
    repeat: Repeat

    @property
    def label(self) -> str:
        return f"{self.scenario} ({self.name})" if self.name else self.scenario

    @property
    def seconds(self) -> float:
        """The planned time of one run; draining comes on top and ends with the last message."""
        return self.phases.warmup + self.phases.measure

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> "Point":
        return cls.model_validate_json(text)
