"""The systems under test: get, start, empty, sample, stop; one file each.

A system says what it is (version, settings, stamps); how messages get to it is the driver's.
"""

from mqlab.systems.base import Hosted, Running, System, SystemFailedError, SystemSettingError
from mqlab.systems.embedded import Embedded

SYSTEMS: dict[str, type[System]] = {"embedded": Embedded}


def system(text: str) -> System:
    """From `NAME` or `NAME:setting=value,...`. Raises SystemSettingError for what is not known."""
    name, _, rest = text.partition(":")
    if name not in SYSTEMS:
        raise SystemSettingError(f"there is no system {name!r}; there are: {', '.join(SYSTEMS)}")
    settings: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise SystemSettingError(f"{text!r}: write NAME:setting=value,setting=value")
        if key.strip() in settings:
            raise SystemSettingError(f"{text!r}: {key.strip()} is set twice")
        settings[key.strip()] = value.strip()
    return SYSTEMS[name](settings)


__all__ = ["SYSTEMS", "Hosted", "Running", "System", "SystemFailedError", "SystemSettingError", "system"]
