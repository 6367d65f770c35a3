"""A course of values in one line of a terminal."""

from collections.abc import Sequence
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], most: int) -> str:
    """A bar for each of the last `most` values, from the least of them to the greatest."""
    shown = values[-most:]
    if not shown:
        return ""
    least, span = min(shown), max(shown) - min(shown)
    return "".join(_BARS[int((value - least) / span * (len(_BARS) - 1)) if span else 0] for value in shown)
