"""Faults: what the lab does to a system, to the line to it, or to its disk, while a run goes on.

A study writes `KIND [AMOUNT] at TIME [for TIME] [every TIME]`, several faults of a run joined by `and`. Times count
from the start of the measure phase.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from mqlab.study.language.units import parse_percent, parse_time

FaultTarget = Literal["process", "line", "disk", "syncs"]
_FORM: Final = "write kill at 5s for 2s, or slow 20ms at 5s for 2s every 10s"
_FAULT: Final = re.compile(r"([a-z-]+)(?: (\S+))? at (\S+)(?: for (\S+))?(?: every (\S+))?", re.ASCII)
_MOST: Final = 100


class FaultKind(NamedTuple):
    """A fault is done to `target`. `amount`: its unit ("": it has none). `lasts`: it must last for some time."""

    target: FaultTarget
    meaning: str
    amount: Literal["", "time", "percent"] = ""
    lasts: bool = True


FAULT_KINDS: Final = {
    "kill": FaultKind("process", "kill -9 of all its processes; `for` later the lab starts it again", lasts=False),
    "restart": FaultKind("process", "an orderly stop; `for` later the lab starts it again", lasts=False),
    "stop": FaultKind("process", "its processes stand still (SIGSTOP), and go on (SIGCONT)"),
    "cut": FaultKind("line", "no byte passes; afterwards the connections go on"),
    "reset": FaultKind("line", "every connection is reset, and new ones are until the end", lasts=False),
    "slow": FaultKind("line", "every byte arrives later by the amount, each way", "time"),
    "lossy": FaultKind("line", "this share of the segments of 1,448 bytes is sent again, 200 ms later", "percent"),
    "full-disk": FaultKind("disk", "the disk of its data has no space left"),
    "slow-disk": FaultKind("syncs", "every sync of its journal takes longer by the amount", "time"),
}
# A system must be started ready for faults of these.
PREPARED_TARGETS: Final[frozenset[FaultTarget]] = frozenset(("disk", "syncs"))


@dataclass(frozen=True)
class Fault:
    """`amount`: seconds, or a share. `every_s`: 0 for a fault that comes once."""

    text: str
    kind: str
    at_s: float
    for_s: float
    every_s: float
    amount: float

    @property
    def target(self) -> FaultTarget:
        return FAULT_KINDS[self.kind].target

    def moments(self, measure_s: float) -> list[float]:
        """When it comes in a measure phase of this length; it ends before the phase does."""
        numbers = range(_MOST if self.every_s else 1)
        moments = (self.at_s + number * self.every_s for number in numbers)
        return [moment for moment in moments if moment + self.for_s < measure_s]


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Return the faults of a run; none for "". Raises ValueError."""
    return tuple(_parse_fault(part) for part in text.split(" and ")) if text else ()


def _parse_fault(text: str) -> Fault:
    match = _FAULT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a fault; {_FORM}")
    name, amount, at, lasting, every = match.groups()
    if name not in FAULT_KINDS:
        raise ValueError(f"'{name}' is not a kind of fault; accepted: {', '.join(FAULT_KINDS)}")
    kind = FAULT_KINDS[name]
    if bool(amount) != bool(kind.amount):
        example = {"": f"{name} at 5s", "time": f"{name} 20ms at 5s", "percent": f"{name} 1% at 5s"}[kind.amount]
        raise ValueError(f"'{text}' has {'an' if amount else 'no'} amount; write {example}")
    if kind.lasts and not lasting:
        raise ValueError(f"'{text}' has no end; write {text} for 2s")
    fault = Fault(
        text, name, parse_time(at), parse_time(lasting) if lasting else 0.0, parse_time(every) if every else 0.0,
        _parse_amount(kind, amount) if amount else 0.0,
    )  # fmt: skip
    if kind.lasts and not fault.for_s:
        raise ValueError(f"'{text}' takes no time; write {name} for 2s")
    if every and fault.every_s <= fault.for_s:
        raise ValueError(f"'{text}' begins again before it ends; write a longer time after every")
    return fault


def _parse_amount(kind: FaultKind, text: str) -> float:
    if kind.amount == "time":
        return parse_time(text)
    share = parse_percent(text)
    if share >= 1:
        raise ValueError(f"'{text}' lets nothing pass; write a share below 100%, or cut")
    return share
