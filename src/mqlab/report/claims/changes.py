"""Changes in percent whose two sides the lab bounded alike."""

import math

from mqlab.report.claims.headroom import RatioWithoutLab
from mqlab.report.claims.interval import Errors, Interval


def change_without_lab(bound: RatioWithoutLab, value: float, low: float, high: float, errors: Errors) -> Interval:
    """The change with these ends, and the random errors that they come from, as it may be without the lab."""

    def ratio(percent: float) -> float:
        return max(0.0, 1 + percent / 100)

    def percent(of: float) -> float:
        return 100 * (of - 1)

    least, greatest = percent(bound.least(ratio(low))), percent(bound.greatest(ratio(high)))
    shift = value - percent(bound.least(ratio(value))), percent(bound.greatest(ratio(value))) - value
    if not math.isfinite(greatest + shift[1]) or low >= value or high <= value:
        return Interval(value, min(least, value), max(greatest, value))
    slopes = (value - shift[0] - least) / (value - low), (greatest - value - shift[1]) / (high - value)
    factor = max(1.0, *slopes)
    scaled = {source: error.scaled(factor) for source, error in errors.items()}
    return Interval(value, min(least, value), max(greatest, value), scaled, shift=shift)
