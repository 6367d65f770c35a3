"""The repetition rule: it decides when a point has enough runs."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import fmean, stdev
from typing import Final

from mqlab.study.language.units import format_percent, parse_percent
from mqlab.study.statistics import t975

WIDTHS: Final[dict[str, Callable[[Sequence[float]], float]]] = {
    # Half the width of the 95 % confidence interval of the mean.
    "interval": lambda values: t975(len(values) - 1) * stdev(values) / sqrt(len(values)),
    "spread": lambda values: max(values) - min(values),
    # Two standard errors of the mean.
    "sigma2": lambda values: 2 * stdev(values) / sqrt(len(values)),
}
_FORM: Final = re.compile(r"(\w+)\((\w+)\)\s*<\s*(\S+)")
_ACCEPTED: Final = "write interval(rate) < 3%, spread(rate) < 1%, sigma2(rate) < 5% or none"


@dataclass(frozen=True)
class RepetitionRule:
    """`interval(rate) < 3%`: a point has enough runs when the width of their rates is below 3 % of their mean."""

    kind: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> "RepetitionRule":
        match = _FORM.fullmatch(text.strip())
        if match is None or match[1] not in WIDTHS or match[2] != "rate":
            raise ValueError(f"'{text}' is not a repetition rule; {_ACCEPTED}")
        limit = parse_percent(match[3])
        if not 0 < limit < 1:
            raise ValueError(f"'{text}' has a limit of {match[3]}; write one above 0% and below 100%")
        return cls(match[1], limit)

    def __str__(self) -> str:
        return f"{self.kind}(rate) < {format_percent(self.limit)}"

    def width(self, values: Sequence[float]) -> float | None:
        """Return the width / the mean; None with fewer than two values or a mean of zero."""
        if len(values) < 2:
            return None
        mean = fmean(values)
        return WIDTHS[self.kind](values) / mean if mean > 0 and isfinite(mean) else None

    def is_met(self, values: Sequence[float]) -> bool:
        width = self.width(values)
        return width is not None and width < self.limit
