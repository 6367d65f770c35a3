"""Values of a property of messages, as a study writes them. They are whole numbers.

7                       every message has it
1 to 8                  drawn, each number as often as any other
1 to 8 in turn          one after the other
zipf 1000               drawn from 1 to 1000; number n is n times as rare as 1
zipf 1000 by 1.2        number n is n^1.2 times as rare as 1
"""

import re
from dataclasses import dataclass
from typing import Final

_LARGEST: Final = 2**31 - 1
# The shares of all numbers are in the memory of each agent.
_MOST_KEYS: Final = 1_000_000
_FORMS: Final = "write 7, 1 to 8, 1 to 8 in turn, zipf 1000 or zipf 1000 by 1.2"
_RANGE: Final = re.compile(r"(\d{1,10})(?: to (\d{1,10})( in turn)?)?", re.ASCII)
_ZIPF: Final = re.compile(r"zipf (\d{1,10})(?: by (\d(?:\.\d{1,3})?))?", re.ASCII)


@dataclass(frozen=True)
class PropertyValues:
    """Whole numbers from `first` to `last`: in turn, or drawn; `skew` is the exponent of Zipf's law, 0: evenly."""

    first: int
    last: int
    in_turn: bool = False
    skew: float = 0.0


def parse_property(text: str) -> PropertyValues:
    """Raises ValueError."""
    if match := _ZIPF.fullmatch(text):
        values = PropertyValues(1, int(match[1]), skew=float(match[2] or 1))
        if not 2 <= values.last <= _MOST_KEYS or not values.skew:
            raise ValueError(f"'{text}': zipf takes from 2 to {_MOST_KEYS:,} numbers, and an exponent above 0")
        return values
    if (match := _RANGE.fullmatch(text)) is None:
        raise ValueError(f"'{text}' is not a property's value; {_FORMS}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last <= _LARGEST or (match[2] and first == last):
        raise ValueError(f"'{text}': the second number is above the first, and at most {_LARGEST}")
    return PropertyValues(first, last, in_turn=bool(match[3]))
