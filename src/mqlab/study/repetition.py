"""The repetition rule: it decides when a point has enough runs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Final

from mqlab.study.language.units import format_percent, parse_percent
from mqlab.study.shared_noise import RunNoise

INTERVAL: Final = "interval"
_KINDS: Final = (INTERVAL, "spread", "sigma2")
_FORM: Final = re.compile(r"(\w+)\((\w+)\)\s*<\s*(\S+)")
_ACCEPTED: Final = "write interval(rate) < 3%, spread(rate) < 1%, sigma2(rate) < 5% or none"


@dataclass(frozen=True)
class RepetitionRule:
    """`interval(rate) < 3%`: a point has enough runs when the width of their rates is below 3 % of their mean.

    `interval` is half the width of the 95 % interval of the mean, `spread` the greatest rate less the least, `sigma2`
    two standard errors of the mean.
    """

    kind: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "RepetitionRule":
        match = _FORM.fullmatch(text.strip())
        if match is None or match[1] not in _KINDS or match[2] != "rate":
            raise ValueError(f"'{text}' is not a repetition rule; {_ACCEPTED}")
        limit = parse_percent(match[3])
        if not 0 < limit < 1:
            raise ValueError(f"'{text}' has a limit of {match[3]}; write one above 0% and below 100%")
        return cls(match[1], limit)

    def __str__(self) -> str:
        return f"{self.kind}(rate) < {format_percent(self.limit)}"

    def width(self, values: Sequence[float], noise: RunNoise | None = None) -> float | None:
        """Return the width / the mean; None with fewer than two values or a mean of zero.

        An interval rests on the noise of a run as all points tell it, if that is given. It may be looked at again and
        again: it ends by its width, which says nothing of the mean.
        """
        mean = fmean(values) if len(values) > 1 else 0.0
        if not 0 < mean < inf:
            return None
        if self.kind == "spread":
            return (max(values) - min(values)) / mean
        if self.kind == "sigma2":
            return 2 * stdev(values) / sqrt(len(values)) / mean
        known = noise or RunNoise.of(values)
        return known and known.half_width(len(values), looks=1)

    def is_met(self, values: Sequence[float], noise: RunNoise | None = None) -> bool:
        width = self.width(values, noise)
        return width is not None and width < self.limit
