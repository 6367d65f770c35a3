"""The trace level of each application: set at run time, by a stanza of the file, or the default."""

import os
from typing import Any, Final

from mqlab.broker.server.trace.stanzas import Stanza, StanzaError, check_application, level_of, read_stanzas
from mqlab.broker.settings import Level, Settings

# Levels that can be set at run time; more belong into a file.
_MOST_OVERRIDES: Final = 1_000


class TraceLevels:
    """Raises StanzaError if there is a file and it cannot be read."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.trace_file
        self._stamp = self._file_stamp()
        self._stanzas = () if self._path is None else read_stanzas(self._path)
        self._default: Level = settings.trace
        # Levels set at run time, by name; the last one first.
        self._overrides: dict[str, Level] = {}

    @property
    def has_file(self) -> bool:
        return self._path is not None

    def level(self, application: str) -> Level:
        overrides = (Stanza(name, level) for name, level in self._overrides.items())
        return level_of((*overrides, *self._stanzas), application, self._default)

    def set_level(self, level: Level | None, application: str | None) -> None:
        if application is None:
            if level is None:
                raise StanzaError("name a level, or an application")
            self._default = level
            return
        check_application(application)
        rest = {name: other for name, other in self._overrides.items() if name != application}
        if level is not None and len(rest) >= _MOST_OVERRIDES:
            raise StanzaError(f"levels of {_MOST_OVERRIDES} applications are set already; write the others into a file")
        self._overrides = rest if level is None else {application: level, **rest}

    def reload(self) -> bool:
        """Return whether the file has changed. A bad file raises StanzaError once, until it changes again."""
        stamp = self._file_stamp()
        if self._path is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        self._stanzas = read_stanzas(self._path)
        return True

    def status(self) -> dict[str, Any]:
        return {
            "level": self._default,
            "said": [{"application": name, "level": level} for name, level in self._overrides.items()],
            "file": None if self._path is None else str(self._path),
            "stanzas": [{"application": stanza.name, "level": stanza.level} for stanza in self._stanzas],
        }

    def _file_stamp(self) -> tuple[int, ...]:
        """Changes whenever the file changes."""
        if self._path is None:
            return ()
        try:
            stat = os.stat(self._path)
        except OSError:
            return (0,)
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
