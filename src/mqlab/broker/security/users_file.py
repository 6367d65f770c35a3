"""The users of a running broker: changes of the file count from the next login on."""

import hmac
import logging
import os
from pathlib import Path
from typing import Final

from mqlab.broker.security.passwords import PasswordHash
from mqlab.broker.security.rights import User
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError

log: Final = logging.getLogger("mqlab.broker")

_Stamp = tuple[int, int, int] | None


class UsersFile:
    """Reads the file again when it has changed. If it cannot be read, the users stay as they were.

    After a successful login it recognizes the password without computing the slow hash, so that many clients can log
    in at once. It stores a digest with a key that only this process has.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._file_stamp()
        self._key = os.urandom(32)
        # Digests by user name, of users who have logged in.
        self._verified: dict[str, bytes] = {}
        self.users = self._read()

    def login(self, name: str, password: str) -> User | None:
        """Like Users.login; thread-safe."""
        self._reload_if_changed()
        user = self.users.login(name, password)
        entry = self.users.entry(name)
        if user is not None and entry is not None:
            self._verified[name] = self._digest(entry[1], password)
        return user

    def recognize(self, name: str, password: str) -> User | None:
        """Return the user if this password was right before and the file has not changed; else None: call `login`."""
        self._reload_if_changed()
        known, entry = self._verified.get(name), self.users.entry(name)
        if known is None or entry is None:
            return None
        user, password_hash = entry
        return user if hmac.compare_digest(known, self._digest(password_hash, password)) else None

    def named(self, name: str) -> User | None:
        """The user, who has proved to be that by other means than the password."""
        self._reload_if_changed()
        entry = self.users.entry(name)
        return None if entry is None else entry[0]

    def _reload_if_changed(self) -> None:
        stamp = self._file_stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self.users = self._read()
            except SettingError as error:
                log.error("%s; the broker keeps the users that it has", error)
            self._verified.clear()

    def _read(self) -> Users:
        users = Users.read(self._path)
        if weak := users.weak:
            names = ", ".join(weak[:10]) + (f" and {len(weak) - 10} more" if len(weak) > 10 else "")
            log.warning(
                "%s: password hashes of %s are weaker than new ones; set the passwords again "
                "(mqlab broker users FILE password NAME)", self._path, names,
            )  # fmt: skip
        return users

    def _digest(self, password_hash: PasswordHash, password: str) -> bytes:
        return hmac.digest(self._key, password_hash.digest + password.encode(errors="surrogatepass"), "sha256")

    def _file_stamp(self) -> _Stamp:
        """Changes whenever the file changes: a new file has another inode even in the same moment."""
        try:
            stat = os.stat(self._path)
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns, stat.st_size
