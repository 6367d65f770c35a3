"""The users of a running broker: whoever is added, changed or removed counts from the next login on."""

import logging
import os
from pathlib import Path
from typing import Final

from mqlab.broker.security.rights import User
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError

log: Final = logging.getLogger("mqlab.broker")

_Stamp = tuple[int, int, int] | None


class UsersFile:
    """Reads the file again when it has changed. A file that became unreadable leaves the users as they were."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._now()
        self.users = Users.read(path)

    def login(self, name: str, password: str) -> User | None:
        """As Users.login; may be called in several threads."""
        stamp = self._now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self.users = Users.read(self._path)
            except SettingError as error:
                log.error("%s; the users stay as they were", error)
        return self.users.login(name, password)

    def _now(self) -> _Stamp:
        """Changes with the file: a new one has another number even in the same moment."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
