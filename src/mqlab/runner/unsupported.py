"""The features that a system with its driver lacks. The lab does not run points that need them on the system."""

from typing import Final

from mqlab.drivers import DRIVERS, Driver
from mqlab.study import Point
from mqlab.study.features import required_features
from mqlab.systems import System, SystemFailedError, SystemSettingError

# Why a system that cannot be hosted in an agent lacks these topologies.
_NOT_HOSTED: Final = {
    "bindings": "it is a program of its own",
    "distributed": "the lab joins brokers that run inside its agents only",
}
_INSTALL: Final = "pip install 'mqlab[systems]'"


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
    """Why the system cannot play the point; "" if it can. Raises SystemFailedError as `unsupported_features` does."""
    try:
        lacking = unsupported_features(system.with_settings(point.settings))
    except SystemSettingError as error:
        return str(error)
    return "; ".join(f"no {feature}: {lacking[feature]}" for feature in required_features(point) if feature in lacking)
