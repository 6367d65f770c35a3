"""Rate profiles: a rate that changes over the time of a run, as a study writes it.

    100/s for 5s then 1k/s for 5s           steps; the last one lasts until the end
    100/s to 1k/s over 10s                  a ramp; its end lasts until the end
    100/s with 1k/s for 1s every 5s         bursts: the last second of every five
    100/s for 5s then 0/s for 5s then again a pause; then all begins again

Times count from the start of the load, which is that of the warm-up.
"""

import math
import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final

from mqlab.study.language.units import parse_rate, parse_time

AGAIN: Final = " then again"
# Later than the end of every run: when the messages of a profile that ends with a pause are due.
_NEVER_SECONDS: Final = 1e9
_ZERO: Final = re.compile(r"0+(\.0+)?/s", re.ASCII)
_FORMS: Final = "write 100/s for 5s then 1k/s, 100/s to 1k/s over 10s, or 100/s with 1k/s for 1s every 5s"
_STEP: Final = re.compile(r"(\S+)(?: to (\S+) over (\S+)| for (\S+))?")
_BURSTS: Final = re.compile(r"(\S+) with (\S+) for (\S+) every (\S+)")


@dataclass(frozen=True)
class RateStep:
    """Messages a second at its start and at its end; it changes evenly between them."""

    seconds: float
    first: float
    last: float

    @property
    def messages(self) -> float:
        return self.seconds * (self.first + self.last) / 2

    def seconds_until(self, messages: float) -> float:
        """Until so many messages have been planned."""
        if not messages:
            return 0.0
        slope = (self.last - self.first) / self.seconds
        # The form of the solution that is exact for a slope of 0 as well.
        return 2 * messages / (self.first + math.sqrt(max(0.0, self.first * self.first + 2 * slope * messages)))


@dataclass(frozen=True)
class RateProfile:
    """Steps one after the other. `cycles`: they begin again; if not, the rate of the end stays.

    `name`: the study's words for it, where they are not the text.
    """

    text: str
    steps: tuple[RateStep, ...]
    cycles: bool = False
    name: str = ""

    def named(self, name: str) -> "RateProfile":
        return replace(self, name=name)

    def __str__(self) -> str:
        return self.name or self.text

    @cached_property
    def _totals(self) -> list[float]:
        """The messages before each step, and those of all."""
        return [0.0, *accumulate(step.messages for step in self.steps)]

    @cached_property
    def _ends(self) -> list[float]:
        return [0.0, *accumulate(step.seconds for step in self.steps)]

    def time_of(self, message: float) -> float:
        """Seconds from the start of the load to the planned time of the message with this number, from 0 on."""
        cycle, rest = divmod(message, self._totals[-1]) if self.cycles else (0.0, message)
        place = bisect_right(self._totals, rest) - 1
        if place >= len(self.steps):
            last = self.steps[-1].last
            return self._ends[-1] + ((rest - self._totals[-1]) / last if last else _NEVER_SECONDS)
        return cycle * self._ends[-1] + self._ends[place] + self.steps[place].seconds_until(rest - self._totals[place])

    def rate_at(self, seconds: float) -> float:
        if self.cycles:
            seconds %= self._ends[-1]
        place = bisect_right(self._ends, seconds) - 1
        if place >= len(self.steps):
            return self.steps[-1].last
        step = self.steps[place]
        return step.first + (step.last - step.first) * (seconds - self._ends[place]) / step.seconds


def is_profile(text: str) -> bool:
    return " " in text.strip()


@lru_cache(maxsize=16)
def parse_profile(text: str) -> RateProfile:
    """Raises ValueError."""
    profile = _parse(text)
    if not any(step.messages for step in profile.steps):
        raise ValueError(f"'{text}' has no messages; {_FORMS}")
    return profile


def _rate(text: str) -> float:
    return 0.0 if _ZERO.fullmatch(text) else parse_rate(text)


def _parse(text: str) -> RateProfile:
    if bursts := _BURSTS.fullmatch(text):
        usual, high = _rate(bursts[1]), _rate(bursts[2])
        lasting, every = parse_time(bursts[3]), parse_time(bursts[4])
        if not 0 < lasting < every:
            raise ValueError(f"'{text}': a burst of {bursts[3]} does not fit into {bursts[4]}; write a shorter one")
        return RateProfile(text, (RateStep(every - lasting, usual, usual), RateStep(lasting, high, high)), cycles=True)
    steps = []
    cycles = text.endswith(AGAIN)
    parts = text.removesuffix(AGAIN).split(" then ")
    for number, part in enumerate(parts, 1):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"'{text}' is not a rate; {_FORMS}")
        first, to, over, time = match.groups()
        if not over and not time and (cycles or number < len(parts)):
            raise ValueError(f"'{part}' has no end, and another rate follows; write {part} for 5s then ...")
        seconds = parse_time(over or time) if over or time else 1.0
        if not seconds:
            raise ValueError(f"'{part}' takes no time; {_FORMS}")
        steps.append(RateStep(seconds, _rate(first), _rate(to or first)))
    return RateProfile(text, tuple(steps), cycles)
