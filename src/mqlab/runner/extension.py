"""Extension: a run that shows no rate, or no steady one, is played again with longer phases."""

from typing import Final

from mqlab.events.schema import COMPLETE
from mqlab.runner.results.outcome import RunOutcome
from mqlab.study import Point

Place = tuple[str, str, str]  # a system, a scenario and a point's name

# How often a run in which nothing was counted is played again.
_MOST_EXTENSIONS: Final = 4
# The time that the longer phases of unsteady runs add, as a share of the time of all runs.
_EXTENDED_SHARE: Final = 1 / 4


class Extensions:
    """Decides about extensions. The later runs of a point keep the longer phases of a steady state or slow switches."""

    def __init__(self, seconds: float, *, unsteady: bool) -> None:
        """`seconds`: the time of all runs. `unsteady`: whether an unsteady run is a reason."""
        self._left_s = _EXTENDED_SHARE * seconds if unsteady else 0.0
        self._longer: dict[Place, Point] = {}

    def restore(self, place: Place, point: Point) -> None:
        """Use the phases of a run that was played before."""
        self._longer[place] = point

    def current(self, place: Place, point: Point) -> Point:
        return self._longer.get(place, point)

    def reason(self, place: Place, point: Point, outcome: RunOutcome, extension: int) -> str:
        """Why the run, which had so many extensions, is played again with the phases of `extended`; "" if it is not.

        A short phase stays empty if a busy machine, or a slow system, stood still for all of it.
        """
        if outcome.status != COMPLETE or point.messages is not None or extension >= _MOST_EXTENSIONS:
            return ""
        longer = extended(point)
        if not outcome.rate(point):
            if point.switch:
                # Each switch is slow, also in the later runs.
                self._longer[place] = longer
            return "nothing was counted"
        added_s = point.seconds + point.repeat.least * (longer.seconds - point.seconds)
        if outcome.disturbed or not outcome.unsteady or place in self._longer or added_s > self._left_s:
            return ""
        self._left_s -= added_s
        self._longer[place] = longer
        return outcome.unsteady


def extended(point: Point) -> Point:
    """The point with phases that begin to measure where its own end, and measure for twice as long."""
    phases = point.phases
    longer = {"warmup": phases.warmup + phases.measure, "measure": 2 * phases.measure}
    return point.model_copy(update={"phases": phases.model_copy(update=longer)})
