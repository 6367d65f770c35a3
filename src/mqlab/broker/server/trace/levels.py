"""Whose operations are recorded: by what was said at run time, by the stanzas of a file, or by what holds for all."""

from __future__ import annotations

import os
from typing import Any, Final

from mqlab.broker.server.trace.stanzas import Stanza, StanzaError, check_application, level_of, read_stanzas
from mqlab.broker.settings import Level, Settings

# Said at run time, each by itself: more belong into a file.
_MOST_SAID: Final = 1_000


class TraceLevels:
    """Raises StanzaError if there is a file and it cannot be read."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.trace_file
        self._stamp = self._stamped()
        self._stanzas = () if self._path is None else read_stanzas(self._path)
        self._otherwise: Level = settings.trace
        # By name, the last that was said first.
        self._said: dict[str, Level] = {}

    @property
    def has_file(self) -> bool:
        return self._path is not None

    def level(self, application: str) -> Level:
        said = (Stanza(name, level) for name, level in self._said.items())
        return level_of((*said, *self._stanzas), application, self._otherwise)

    def set_level(self, level: Level | None, application: str | None) -> None:
        if application is None:
            if level is None:
                raise StanzaError("say a level, or which application")
            self._otherwise = level
            return
        check_application(application)
        rest = {name: one for name, one in self._said.items() if name != application}
        if level is not None and len(rest) >= _MOST_SAID:
            raise StanzaError(f"levels of {_MOST_SAID} applications were said already; write the others into a file")
        self._said = rest if level is None else {application: level, **rest}

    def reload(self) -> bool:
        """Whether the file has changed. What is wrong with it is told once, until it changes again."""
        stamp = self._stamped()
        if self._path is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        self._stanzas = read_stanzas(self._path)
        return True

    def status(self) -> dict[str, Any]:
        return {
            "level": self._otherwise,
            "said": [{"application": name, "level": level} for name, level in self._said.items()],
            "file": None if self._path is None else str(self._path),
            "stanzas": [{"application": one.name, "level": one.level} for one in self._stanzas],
        }

    def _stamped(self) -> tuple[int, ...]:
        """What tells a file from the same file after a change."""
        if self._path is None:
            return ()
        try:
            found = os.stat(self._path)
        except OSError:
            return (0,)
        return found.st_mtime_ns, found.st_size, found.st_ino
