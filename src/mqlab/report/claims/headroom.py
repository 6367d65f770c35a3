"""How much higher figures may be without the lab's own work, where that was the bottleneck, or with longer runs.

docs/decisions/0019-the-labs-share.md has the reasons.
"""

import math
from collections.abc import Hashable
from dataclasses import dataclass

from mqlab.pipeline.schema import UNSERVED, MeasureRow, most_without_lab
from mqlab.study import Point


@dataclass(frozen=True)
class Headroom:
    """Of a figure. `most`: the factor by which it may be higher; `message`: the lab's time for a message, without a
    unit. A figure that the lab did not bound has no headroom. The lab does the same for messages with equal `work`.
    """

    most: float = 1.0
    message: float = 0.0
    work: Hashable = None

    @classmethod
    def of(cls, point: Point, measure: MeasureRow, lab: MeasureRow | None) -> "Headroom":
        """`lab`: the CPU time of the lab's own work in the same runs (`cpu.lab`)."""
        if not measure.lower_bound:
            return cls()
        if lab is None or not measure.value or measure.bound_by == UNSERVED:
            return cls(math.inf)
        # All figures of one calibration and one scenario have the same.
        work = (point.scenario, measure.metric, point.pattern, point.send, point.transaction > 0, point.bodies)
        return cls(most_without_lab(lab.value + (lab.ci95 or 0.0)), lab.value / measure.value, work)

    def is_like(self, other: "Headroom") -> bool:
        """Whether the lab bounded both, by the same work for a message."""
        return self.work == other.work is not None and max(self.most, other.most) < math.inf


@dataclass(frozen=True)
class RatioWithoutLab:
    """The ratio of two rates, `new` over `base`, that the lab bounded alike.

    The system took the rest of the time that was short. If a message took the lab the share s of the base's time, it
    took the share `ratio` x s of the other's. So the ratio without the lab is ratio x (1 - s) / (1 - ratio x s).
    """

    base: Headroom
    new: Headroom

    def least(self, ratio: float) -> float:
        """With the least share, which is 0, or the greatest."""
        return max(min(ratio, self._ratio(ratio, min(1.0, self._relative))), ratio / self.base.most)

    def greatest(self, ratio: float) -> float:
        return min(max(ratio, self._ratio(ratio, max(1.0, self._relative))), ratio * self.new.most)

    @property
    def _relative(self) -> float:
        """The lab's time for a message of `new` over that of `base`: calls of the driver differ in their messages."""
        return self.new.message / self.base.message if self.base.message and self.new.message else 1.0

    def _ratio(self, ratio: float, relative: float) -> float:
        share = 1 - 1 / self.base.most
        left = 1 - relative * share * ratio
        return ratio * (1 - share) / left if left > 0 else math.inf
