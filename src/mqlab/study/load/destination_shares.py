"""How the messages of a point are spread over its destinations, as a study writes it.

70% + 20% + 10%     the shares of destination 0, 1 and 2
zipf                destination n (from 1 on) has n times fewer than the first; zipf by 1.2: n^1.2 times fewer
"""

import math
import re
from typing import Final

from mqlab.study.language.units import parse_percent

_ZIPF: Final = re.compile(r"zipf(?: by (\d(?:\.\d{1,3})?))?", re.ASCII)
_SEPARATOR: Final = re.compile(r"\s*[,+]\s*")


def parse_shares(text: str) -> str:
    """The same without commas, which separate the parameters in names of points. Raises ValueError."""
    if match := _ZIPF.fullmatch(text):
        if not float(match[1] or 1):
            raise ValueError(f"'{text}': zipf takes an exponent above 0")
        return text
    shares = [parse_percent(part) for part in _SEPARATOR.split(text.strip())]
    if not all(shares) or not math.isclose(math.fsum(shares), 1, abs_tol=1e-9):
        raise ValueError(f"'{text}': shares are above 0%, and make 100%; write 70% + 20% + 10%, or zipf")
    return " + ".join(_SEPARATOR.split(text.strip()))


def shares_of(text: str, destinations: int) -> tuple[float, ...]:
    """The share of each destination. Raises ValueError if the text has shares for another number of them."""
    if match := _ZIPF.fullmatch(text):
        weights = [number ** -float(match[1] or 1) for number in range(1, destinations + 1)]
        return tuple(weight / math.fsum(weights) for weight in weights)
    shares = tuple(parse_percent(part) for part in _SEPARATOR.split(text))
    if len(shares) != destinations:
        raise ValueError(f"shares: '{text}' are {len(shares)} shares, and there are {destinations} destinations")
    return shares
