"""The policy of a destination: limits, what happens at them, dead letters and expired messages."""

from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal, NamedTuple, get_args

from mqlab.broker.patterns import matches
from mqlab.errors import MqlabError

MIB = 1024 * 1024

WhenFull = Literal["hold", "refuse", "drop-oldest"]
Retrieval = Literal["indexed", "scan"]


class PolicyError(MqlabError):
    """A policy has a bad value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    # Unacknowledged bytes of a queue or subscription at which it is full. More lets bursts pass and delays the
    # messages behind them.
    queue_limit: int = 8 * MIB
    # The same as a number of messages. 0: no such limit.
    message_limit: int = 0
    # At the limit: "hold" makes producers wait, "refuse" gives them an error, "drop-oldest" (topics only) drops the
    # oldest messages of the subscription that is full. Only the last loses messages.
    when_full: WhenFull = "hold"
    # Bytes of a queue that stay in memory; the broker pages out the rest (the studies' save extent). 0: no paging.
    save_extent: int = 0
    # "indexed": a receive by correlation id or message id costs the same at any depth. "scan": the broker searches
    # the queue from its head each time, as one of the studied products does.
    retrieval: Retrieval = "indexed"
    # Deliveries without acknowledgement after which a message goes to `dead_letters`. 0: no limit.
    redelivery_limit: int = 10
    dead_letters: str = "queue:dead-letters"
    # Where expired messages go. "": they are dropped.
    expired: str = ""
    # Duplicate ids that the broker remembers: it confirms a second send with the same id and discards the message.
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
                raise PolicyError(f"{name}: {value!r} would be deleted with its connection")
        if self.redelivery_limit and not self.dead_letters:
            raise PolicyError("redelivery_limit needs dead_letters, the queue for messages that reach the limit")


_LEAST: Final = {
    "queue_limit": 1, "message_limit": 0, "save_extent": 0, "redelivery_limit": 0, "duplicate_window": 0,
}  # fmt: skip
POLICY_FIELDS: Final = tuple(setting.name for setting in fields(Policy))
# Any: the dataclasses of the settings declare and check the type of each value, and mypy cannot look that up by name.
SettingValue = Any


class PolicyRule(NamedTuple):
    """Values for the destinations that a pattern (`queue:orders.#`) matches, in place of the defaults."""

    pattern: str
    values: dict[str, SettingValue]


@dataclass(frozen=True, slots=True)
class Policies:
    rules: tuple[PolicyRule, ...] = ()

    def __post_init__(self) -> None:
        for rule in self.rules:
            kind, colon, _ = rule.pattern.partition(":")
            if not colon or kind not in ("queue", "topic"):
                raise PolicyError(f"{rule.pattern!r} is not a pattern of destinations; write queue:NAME or topic:NAME")
            unknown = [name for name in rule.values if name not in POLICY_FIELDS]
            if unknown:
                raise PolicyError(f"{rule.pattern}: there is no {unknown[0]!r}; there are: {', '.join(POLICY_FIELDS)}")
            policy = replace(Policy(), **rule.values)
            if policy.when_full == "drop-oldest" and kind == "queue":
                raise PolicyError(f"{rule.pattern}: drop-oldest is for topics only; a queue loses nothing")

    def of(self, destination: str, default: Policy) -> Policy:
        """The first rule that matches decides."""
        for rule in self.rules:
            if matches(rule.pattern, destination):
                return replace(default, **rule.values)
        return default
