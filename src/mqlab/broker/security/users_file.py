"""The users of a running broker: whoever is added, changed or removed counts from the next login on."""

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
    """Reads the file again when it has changed. A file that became unreadable leaves the users as they were.

    A password that was right is recognized again without the work of its hash, so that many clients can log in at
    once. What is remembered is a keyed digest, of use only with a key that this process alone has.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._now()
        self._key = os.urandom(32)
        # By name, of those who have logged in.
        self._verified: dict[str, bytes] = {}
        self.users = self._read()

    def login(self, name: str, password: str) -> User | None:
        """As Users.login; may be called in several threads."""
        self._read_again()
        user = self.users.login(name, password)
        entry = self.users.entry(name)
        if user is not None and entry is not None:
            self._verified[name] = self._digest(entry[1], password)
        return user

    def recognize(self, name: str, password: str) -> User | None:
        """The user, if this password was right before and neither has changed since; None: `login` decides."""
        self._read_again()
        known, entry = self._verified.get(name), self.users.entry(name)
        if known is None or entry is None:
            return None
        user, password_hash = entry
        return user if hmac.compare_digest(known, self._digest(password_hash, password)) else None

    def _read_again(self) -> None:
        stamp = self._now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self.users = self._read()
            except SettingError as error:
                log.error("%s; the users stay as they were", error)
            self._verified.clear()

    def _read(self) -> Users:
        users = Users.read(self._path)
        if weak := users.weak:
            names = ", ".join(weak[:10]) + (f" and {len(weak) - 10} more" if len(weak) > 10 else "")
            log.warning(
                "%s: password hashes of %s are weaker than those made today; set the passwords again "
                "(mqlab broker users FILE password NAME)", self._path, names,
            )  # fmt: skip
        return users

    def _digest(self, password_hash: PasswordHash, password: str) -> bytes:
        return hmac.digest(self._key, password_hash.digest + password.encode(errors="surrogatepass"), "sha256")

    def _now(self) -> _Stamp:
        """Changes with the file: a new one has another number even in the same moment."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
