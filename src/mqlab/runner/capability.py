"""Which system plays which point; who does not, and why."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from mqlab.runner.unsupported import absent
from mqlab.study import Point
from mqlab.systems import System, SystemFailedError

# So many starts in a row that fail, and a system is given up: what it lacks will not come by waiting.
_MOST_FAILED: Final = 2


class Capabilities:
    """A system that lacks what a point needs does not play it; one that cannot be started plays no more."""

    def __init__(self, systems: Sequence[System], points: Sequence[Point]) -> None:
        self._systems = systems
        self._points = points
        # By the label of the system and the label of the point.
        self._lacking: dict[tuple[str, str], str] = {}
        self._failed: Counter[str] = Counter()
        self._given_up: dict[str, str] = {}
        self._played: set[tuple[str, str]] = set()
        # What the last start that failed said of it.
        self.failure = ""
        for system in systems:
            for point in points:
                if why := _lacking(system, point):
                    self._lacking[system.label, point.label] = why

    def absence(self, system: System, point: Point) -> str:
        """Why it does not play the point, or no more; "" if it does."""
        return self._lacking.get((system.label, point.label), "") or self._given_up.get(system.label, "")

    def points_of(self, system: System) -> list[Point]:
        return [point for point in self._points if not self.absence(system, point)]

    def is_up(self, system: System) -> None:
        self._failed[system.label] = 0

    def plays(self, system: System, point: Point) -> None:
        self._played.add((system.label, point.label))

    def failed_to_start(self, system: System, why: str) -> bool:
        """Whether it is given up now."""
        self.failure = why
        self._failed[system.label] += 1
        if self._failed[system.label] < _MOST_FAILED:
            return False
        self._given_up[system.label] = f"given up after {_MOST_FAILED} starts that failed: {why}"
        return True

    def absences(self) -> list[dict[str, Any]]:
        """As the record has them: what was never run."""
        return [
            {"system": system.label, "scenario": point.scenario, "point": point.name, "reason": why}
            for point in self._points for system in self._systems
            if (why := self.absence(system, point)) and (system.label, point.label) not in self._played
        ]  # fmt: skip

    def check(self) -> None:
        """Raises SystemFailedError if nobody plays anything."""
        if not any(self.points_of(system) for system in self._systems):
            said = dict.fromkeys(f"{one['system']}: {one['reason']}" for one in self.absences())
            raise SystemFailedError(f"nothing can be run: {'; '.join(said)}")


def _lacking(system: System, point: Point) -> str:
    try:
        return absent(system, point)
    except SystemFailedError as error:
        return str(error)
