"""Which systems can play which points, and the reason where one cannot."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from mqlab.runner.unsupported import why_unsupported
from mqlab.study import Point
from mqlab.systems import System, SystemFailedError

# After so many failed starts in a row the conductor does not start a system again.
_MAX_FAILED_STARTS: Final = 2


class Capabilities:
    """A system does not play a point whose features it lacks, and no points at all once it has failed to start."""

    def __init__(self, systems: Sequence[System], points: Sequence[Point]) -> None:
        self._systems = systems
        self._points = points
        # The reasons, by the labels of the system and the point.
        self._unsupported: dict[tuple[str, str], str] = {}
        self._failed_starts: Counter[str] = Counter()
        self._excluded: dict[str, str] = {}
        self._played: set[tuple[str, str]] = set()
        # The error of the last failed start.
        self.last_failure = ""
        for system in systems:
            for point in points:
                if reason := _unsupported(system, point):
                    self._unsupported[system.label, point.label] = reason

    def why_not(self, system: System, point: Point) -> str:
        """Why the system does not play the point, or not any more; "" if it does."""
        return self._unsupported.get((system.label, point.label), "") or self._excluded.get(system.label, "")

    def points_of(self, system: System) -> list[Point]:
        return [point for point in self._points if not self.why_not(system, point)]

    def record_start(self, system: System) -> None:
        self._failed_starts[system.label] = 0

    def record_run(self, system: System, point: Point) -> None:
        self._played.add((system.label, point.label))

    def record_failed_start(self, system: System, reason: str) -> bool:
        """Returns whether the system is excluded from now on."""
        self.last_failure = reason
        self._failed_starts[system.label] += 1
        if self._failed_starts[system.label] < _MAX_FAILED_STARTS:
            return False
        self._excluded[system.label] = f"given up after {_MAX_FAILED_STARTS} starts that failed: {reason}"
        return True

    def absences(self) -> list[dict[str, Any]]:
        """The points that were never run on a system, for meta.json."""
        return [
            {"system": system.label, "scenario": point.scenario, "point": point.name, "reason": reason}
            for point in self._points for system in self._systems
            if (reason := self.why_not(system, point)) and (system.label, point.label) not in self._played
        ]  # fmt: skip

    def check(self) -> None:
        """Raises SystemFailedError if no system can play any point."""
        if not any(self.points_of(system) for system in self._systems):
            reasons = dict.fromkeys(f"{absence['system']}: {absence['reason']}" for absence in self.absences())
            raise SystemFailedError(f"nothing can be run: {'; '.join(reasons)}")


def _unsupported(system: System, point: Point) -> str:
    try:
        return why_unsupported(system, point)
    except SystemFailedError as error:
        return str(error)
