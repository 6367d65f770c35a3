"""What a system cannot play, and why: such a point is not run on it, and its place in every table says so."""

from typing import Final

from mqlab.drivers import DRIVERS, Driver
from mqlab.study import Point
from mqlab.study.features import required_features
from mqlab.systems import System, SystemFailedError, SystemSettingError

# Of a system that cannot be started inside an agent.
_OUTSIDE: Final = {
    "bindings": "it is a program of its own",
    "distributed": "the lab joins brokers that run inside its agents only",
}
_EXTRA: Final = "pip install 'mqlab[systems]'"


def driver_of(system: System) -> type[Driver]:
    """Raises SystemFailedError if the driver is not there, or a library that it needs."""
    name = system.driver
    try:
        return DRIVERS[name]
    except KeyError:
        known = ", ".join(DRIVERS)
        raise SystemFailedError(f"{system.name}: there is no driver {name!r}; there are: {known}") from None
    except ImportError as error:
        lacking = f"the library {error.name}" if error.name else str(error)
        raise SystemFailedError(f"{system.name}: the driver {name} needs {lacking}: {_EXTRA}") from error


def lacks(system: System) -> dict[str, str]:
    """The features that it has not, with the driver that it is used with, each with the reason.

    Raises SystemFailedError if there is no such driver here.
    """
    inside = type(system).host is not System.host
    of_system = {**system.lacks, **system.lacks_with.get(system.driver, {})}
    return {**({} if inside else _OUTSIDE), **driver_of(system).lacks, **of_system}


def absent(system: System, point: Point) -> str:
    """Why it cannot play the point; "" if it can. Raises SystemFailedError as `lacks` does."""
    try:
        found = lacks(system.with_settings(point.settings))
    except SystemSettingError as error:
        return str(error)
    return "; ".join(f"no {feature}: {found[feature]}" for feature in required_features(point) if feature in found)
