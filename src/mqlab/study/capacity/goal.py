"""The goal of a capacity search: `latency.p99 < 10ms`, or `latency.p99 < 10ms, within 5%`."""

import re
from dataclasses import dataclass
from typing import Final

from mqlab.study.language.units import format_percent, format_time, parse_percent, parse_time
from mqlab.study.metric import METRICS, is_duration

_FORM: Final = re.compile(r"(\S+)\s*<\s*([^\s,]+)(?:\s*,\s*within\s+(\S+))?")
# How close to each other the confirmed rate and the rejected one above it are.
_WITHIN: Final = 0.015
_GOALS: Final = [name for name in METRICS if is_duration(name)]


@dataclass(frozen=True)
class LatencyGoal:
    """The metric, a duration of single messages, must stay below `limit` seconds.

    The highest rate is found `within` this share of it.
    """

    metric: str
    limit: float
    within: float = _WITHIN

    @classmethod
    def parse(cls, text: str) -> "LatencyGoal":
        """Raises ValueError with a sentence that names the accepted form."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text}' is not a goal; write latency.p99 < 10ms")
        if match[1] not in _GOALS:
            raise ValueError(f"'{match[1]}' is not a duration of messages; accepted: {', '.join(_GOALS)}")
        limit = parse_time(match[2])
        if not limit:
            raise ValueError(f"'{text}': no message takes no time; write latency.p99 < 10ms")
        within = parse_percent(match[3]) if match[3] else _WITHIN
        if not 0.001 <= within <= 1:
            raise ValueError(f"'{text}': a rate is found within 0.1% to 100%")
        return cls(match[1], limit, within)

    def __str__(self) -> str:
        return f"{self.metric} < {format_time(self.limit)}"

    @property
    def text(self) -> str:
        """As `parse` reads it."""
        return f"{self}, within {format_percent(self.within)}"
