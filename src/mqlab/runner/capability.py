"""Which systems can play which points, the reason where one cannot, and how meta.json describes a system."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from mqlab.drivers import DRIVERS, Driver
from mqlab.json_values import JsonObject
from mqlab.runner.agents.pacing import AHEAD_SECONDS
from mqlab.study import Point
from mqlab.study.features import required_features
from mqlab.study.language.units import format_size
from mqlab.study.load.sizes import LARGEST_BODY
from mqlab.systems import System, SystemFailedError, SystemSettingError
from mqlab.systems.disk.mounted_disk import why_no_own_disk

# Why a system that cannot be hosted in an agent lacks these topologies.
_NOT_HOSTED: Final = {
    "bindings": "it is a program of its own",
    "distributed": "the lab joins brokers that run inside its agents only",
}
_INSTALL: Final = "pip install 'mqlab[systems]'"
# After so many failed starts in a row the conductor does not start a system again.
_MAX_FAILED_STARTS: Final = 2


def driver_class(system: System) -> type[Driver]:
    """The driver of the system. Raises SystemFailedError if it, or a library that it needs, is not installed."""
    name = system.driver
    try:
        return DRIVERS[name]
    except KeyError:
        raise SystemFailedError(
            f"{system.name}: there is no driver {name!r}; there are: {', '.join(DRIVERS)}"
        ) from None
    except ImportError as error:
        missing = f"the library {error.name}" if error.name else str(error)
        raise SystemFailedError(f"{system.name}: the driver {name} needs {missing}: {_INSTALL}") from error


def unsupported_features(system: System) -> dict[str, str]:
    """The features that the system lacks with its driver, each with the reason.

    Raises SystemFailedError if the driver is not installed.
    """
    can_be_hosted = type(system).host is not System.host
    system_lacks = {**system.lacks, **system.lacks_with.get(system.driver, {})}
    return {**({} if can_be_hosted else _NOT_HOSTED), **driver_class(system).lacks, **system_lacks}


def why_unsupported(system: System, point: Point) -> str:
    """Why the system cannot play the point; "" if it can."""
    try:
        configured = system.with_settings(point.settings)
        lacking = unsupported_features(configured)
        has_batches = driver_class(configured).has_batches
    except (SystemSettingError, SystemFailedError) as error:
        return str(error)
    for fault in point.planned_faults:
        if reason := system.lacks_faults.get(fault.target, ""):
            return f"no {fault.kind}: {reason}"
        if fault.target == "disk" and (reason := why_no_own_disk()):
            return f"no {fault.kind}: {reason}"
    if system.packed > 1 and (reason := _why_not_packed(system.packed, point, has_batches=has_batches)):
        return f"no packed messages: {reason}"
    return "; ".join(f"no {feature}: {lacking[feature]}" for feature in required_features(point) if feature in lacking)


def _why_not_packed(records: int, point: Point, *, has_batches: bool) -> str:
    if point.pattern == "request-reply":
        return "a requester waits for the reply to each request"
    if point.has_varied_bodies:
        return "the records of a message have one size"
    if point.has_headers:
        return "the records of a message have no headers of their own"
    if (point.selector or point.properties) and not has_batches:
        return "a selector chooses whole messages, not the records of one"
    if 0 < point.transaction < records:
        return f"a transaction of {point.transaction} is smaller than a message of {records:,} records"
    if point.messages is not None and point.messages < records * point.producers:
        return f"the point has {point.messages:,} messages in all, and one packed message has {records:,} records"
    if records * point.size > LARGEST_BODY:
        return (
            f"{records:,} records of {format_size(point.size)} are more than the largest body,"
            f" {format_size(LARGEST_BODY)}"
        )
    return ""


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
                if reason := why_unsupported(system, point):
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

    def absences(self) -> list[dict[str, str]]:
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


def setting_error(system: System, point: Point) -> SystemSettingError | None:
    """Why the system does not accept the settings of the point; None if it does."""
    try:
        system.with_settings(point.settings)
    except SystemSettingError as error:
        return error
    return None


def describe_system(system: System, points: Sequence[Point]) -> JsonObject:
    """The system's entry in meta.json, with the stamps that it has only with the settings of some points."""
    description = system.describe()
    stamps = dict.fromkeys(description["stamps"])
    for point in points:
        for stamp in system.with_settings(point.settings).describe()["stamps"]:
            if stamp not in description["stamps"]:
                stamps[f"{stamp} (in some points)"] = None
    return {
        **description, "driver": system.driver, "packed": system.packed, "stamps": [*stamps],
        "durability": asdict(system.durability()), "ahead_seconds": _send_ahead_seconds(system),
    }  # fmt: skip


def _send_ahead_seconds(system: System) -> float | None:
    """The bound of the send-ahead; None if the driver cannot bound it."""
    try:
        return AHEAD_SECONDS if driver_class(system).reports_accepted else None
    except SystemFailedError:
        return None
