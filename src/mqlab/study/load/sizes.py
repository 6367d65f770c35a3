"""Sizes of messages that differ from message to message, as a study writes them.

70% 100B, 25% 1KiB, 5% 64KiB            a mix: shares of sizes
median 1KiB, p99 64KiB                  a lognormal distribution

Both become sizes with a share each. Names of points separate parameters by commas, so they have a plus instead.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Final

from mqlab.study.language.units import format_percent, format_size, parse_percent, parse_size

# A body carries the id of its producer (4 bytes) and its sequence number (8 bytes): the audit needs them.
SMALLEST_BODY: Final = 12
# A reply carries the id of its request as well.
SMALLEST_REPLY: Final = 24
# Every role holds several copies of a message, or of a batch, in memory.
LARGEST_BODY: Final = 8 * 2**20

_FORMS: Final = "write 1KiB, a mix like 70% 100B, 30% 1KiB, or median 1KiB, p99 64KiB"
_SEPARATOR: Final = re.compile(r"\s*[,+]\s*")
_DISTRIBUTION: Final = re.compile(r"median (\S+) p99 (\S+)")
# A distribution has so many sizes with the same share.
_QUANTILES: Final = 1000
_P99: Final = NormalDist().inv_cdf(0.99)


@dataclass(frozen=True)
class SizeMix:
    """Sizes in bytes, each with its share of the messages. `text`: without commas; `parse_sizes` reads it again."""

    text: str
    sizes: tuple[int, ...]
    shares: tuple[float, ...]

    @cached_property
    def mean(self) -> float:
        return math.fsum(size * share for size, share in zip(self.sizes, self.shares, strict=True))


def is_mix(text: str) -> bool:
    return "%" in text or "median" in text or "p99" in text


def parse_body_size(text: str) -> int:
    """The size of a body. Raises ValueError."""
    size = parse_size(text)
    if size < SMALLEST_BODY:
        raise ValueError(
            f"'{text}' is too small; a body has at least 12B (the id of its producer and a sequence number)"
        )
    if size > LARGEST_BODY:
        raise ValueError(f"'{text}' is too large; a body has at most {format_size(LARGEST_BODY)}")
    return size


def parse_sizes(text: str) -> SizeMix:
    """Raises ValueError."""
    parts = _SEPARATOR.split(text.strip())
    if match := _DISTRIBUTION.fullmatch(" ".join(parts)):
        return _lognormal(match[1], match[2])
    shares: dict[int, float] = {}
    for part in parts:
        share_text, _, size_text = part.partition(" ")
        if not share_text.endswith("%") or not size_text:
            raise ValueError(f"'{part}' is not a share and a size; {_FORMS}")
        share, size = parse_percent(share_text), parse_body_size(size_text.strip())
        if not share or size in shares:
            reason = "has no messages" if not share else "is there twice"
            raise ValueError(f"'{text}': {format_size(size)} {reason}; {_FORMS}")
        shares[size] = share
    if not math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-9):
        raise ValueError(f"the shares of '{text}' make {100 * math.fsum(shares.values()):g}%, not 100%")
    plain = " + ".join(f"{format_percent(share)} {format_size(size)}" for size, share in shares.items())
    return SizeMix(plain, tuple(shares), tuple(shares.values()))


def _lognormal(median_text: str, p99_text: str) -> SizeMix:
    """Sizes at evenly spread quantiles; none is too small for a reply, or larger than a body may be."""
    median, p99 = parse_body_size(median_text), parse_body_size(p99_text)
    if not SMALLEST_REPLY <= median < p99:
        raise ValueError(
            f"median {median_text}, p99 {p99_text}: the median is at least {SMALLEST_REPLY}B, and below the p99"
        )
    normal = NormalDist(math.log(median), math.log(p99 / median) / _P99)
    drawn = [round(math.exp(normal.inv_cdf((number + 0.5) / _QUANTILES))) for number in range(_QUANTILES)]
    sizes = tuple(min(max(size, SMALLEST_REPLY), LARGEST_BODY) for size in drawn)
    text = f"median {format_size(median)} + p99 {format_size(p99)}"
    return SizeMix(text, sizes, (1 / _QUANTILES,) * _QUANTILES)
