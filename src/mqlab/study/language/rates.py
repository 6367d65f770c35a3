"""Rate profiles: a rate that changes over the time of a run, as a study writes it.

    100/s for 5s then 1k/s for 5s           steps; the last one lasts until the end
    100/s to 1k/s over 10s                  a ramp; its end lasts until the end
    100/s with 1k/s for 1s every 5s         bursts: the last second of every five

Times count from the start of the load, which is that of the warm-up.
"""

import math
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from mqlab.study.language.units import parse_rate, parse_time

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
        slope = (self.last - self.first) / self.seconds
        # The form of the solution that is exact for a slope of 0 as well.
        return 2 * messages / (self.first + math.sqrt(max(0.0, self.first * self.first + 2 * slope * messages)))


@dataclass(frozen=True)
class RateProfile:
    """Steps one after the other. `cycles`: they begin again; if not, the rate of the end stays."""

    text: str
    steps: tuple[RateStep, ...]
    cycles: bool = False

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
            return self._ends[-1] + (rest - self._totals[-1]) / self.steps[-1].last
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


def parse_profile(text: str) -> RateProfile:
    """Raises ValueError."""
    if bursts := _BURSTS.fullmatch(text):
        usual, high = parse_rate(bursts[1]), parse_rate(bursts[2])
        lasting, every = parse_time(bursts[3]), parse_time(bursts[4])
        if not 0 < lasting < every:
            raise ValueError(f"'{text}': a burst of {bursts[3]} does not fit into {bursts[4]}; write a shorter one")
        return RateProfile(text, (RateStep(every - lasting, usual, usual), RateStep(lasting, high, high)), cycles=True)
    steps = []
    parts = text.split(" then ")
    for number, part in enumerate(parts, 1):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"'{text}' is not a rate; {_FORMS}")
        first, to, over, time = match.groups()
        if not over and not time and number < len(parts):
            raise ValueError(f"'{part}' has no end, and another rate follows; write {part} for 5s then ...")
        seconds = parse_time(over or time) if over or time else 1.0
        if not seconds:
            raise ValueError(f"'{part}' takes no time; {_FORMS}")
        steps.append(RateStep(seconds, parse_rate(first), parse_rate(to or first)))
    return RateProfile(text, tuple(steps))
