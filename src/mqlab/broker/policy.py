"""What holds for a destination: limits, what happens at them, where messages go that nobody took."""

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from mqlab.broker.patterns import matches
from mqlab.errors import MqlabError

MIB = 1024 * 1024

WhenFull = Literal["hold", "refuse", "drop-oldest"]
Retrieval = Literal["indexed", "scan"]


class PolicyError(MqlabError, ValueError):
    """A policy has a value the broker cannot work with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    # Unacknowledged bytes of a queue or subscription at which it is full. More lets bursts pass and delays the
    # messages behind them.
    queue_limit: int = 8 * MIB
    # The same as a number of messages. 0: no such limit.
    message_limit: int = 0
    # At the limit: "hold" makes producers wait, "refuse" gives them an error, "drop-oldest" (topics only) forgets the
    # oldest messages of the subscription that is full. Only the last loses anything, and only where it is chosen.
    when_full: WhenFull = "hold"
    # Bytes of a queue that stay in memory; what comes on top waits on disk (the studies' save extent). 0: all of it
    # stays in memory.
    save_extent: int = 0
    # "indexed": a receive by correlation id or message id costs the same at any depth. "scan": the queue is searched
    # from its head each time, as one of the studied products does.
    retrieval: Retrieval = "indexed"
    # Deliveries of a message in vain after which it goes to `dead_letters`. 0: no end.
    redelivery_limit: int = 10
    dead_letters: str = "queue:dead-letters"
    # Where expired messages go. "": they are dropped.
    expired: str = ""
    # Ids given by producers that are remembered, so that a second send of one of them is confirmed and forgotten.
    duplicate_window: int = 20_000

    def __post_init__(self) -> None:
        for name, smallest in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise PolicyError(f"{name}: {value!r} is not a whole number of {smallest} or more")
        for name, accepted in (("when_full", get_args(WhenFull)), ("retrieval", get_args(Retrieval))):
            if getattr(self, name) not in accepted:
                raise PolicyError(f"{name}: {getattr(self, name)!r} is none of {', '.join(accepted)}")
        for name in ("dead_letters", "expired"):
            value = getattr(self, name)
            if not isinstance(value, str) or (value and not value.startswith("queue:")):
                example = f"queue:{name.replace('_', '-')}"
                raise PolicyError(f"{name}: {value!r} is not the name of a queue, such as {example}")
            if value.startswith("queue:temporary."):
                raise PolicyError(f"{name}: {value!r} would go with its connection")
        if self.redelivery_limit and not self.dead_letters:
            raise PolicyError("redelivery_limit needs dead_letters: a message is not dropped because of it")


_LEAST: Final = {
    "queue_limit": 1, "message_limit": 0, "save_extent": 0, "redelivery_limit": 0, "duplicate_window": 0,
}  # fmt: skip
POLICY_FIELDS: Final = tuple(one.name for one in fields(Policy))


class PolicyRule(NamedTuple):
    """Values that hold for the destinations a pattern (`queue:orders.#`) matches, in place of the general ones."""

    pattern: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Policies:
    rules: tuple[PolicyRule, ...] = ()

    def __post_init__(self) -> None:
        for rule in self.rules:
            kind, colon, _ = rule.pattern.partition(":")
            if not colon or kind not in ("queue", "topic"):
                raise PolicyError(f"{rule.pattern!r} is no pattern of destinations; write queue:NAME or topic:NAME")
            unknown = [name for name in rule.values if name not in POLICY_FIELDS]
            if unknown:
                raise PolicyError(f"{rule.pattern}: there is no {unknown[0]!r}; there are: {', '.join(POLICY_FIELDS)}")
            made = replace(Policy(), **rule.values)
            if made.when_full == "drop-oldest" and kind == "queue":
                raise PolicyError(f"{rule.pattern}: drop-oldest is for topics only; a queue loses nothing")

    def of(self, destination: str, general: Policy) -> Policy:
        """The first rule that matches decides."""
        for rule in self.rules:
            if matches(rule.pattern, destination):
                return replace(general, **rule.values)
        return general
