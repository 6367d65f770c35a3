"""Passwords as scrypt hashes, which are slow to compute, so slow to guess."""

import base64
import hashlib
import hmac
import os
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.settings import SettingError

_SALT, _DIGEST = 16, 32
_ENCODED: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})", re.ASCII
)


class Cost(NamedTuple):
    """scrypt parameters: 2**log_n steps over 128 * r * 2**log_n bytes of memory, p times."""

    log_n: int
    r: int
    p: int

    @property
    def work(self) -> int:
        """A number that compares costs: how much the hash reads and writes."""
        return self.r * self.p << self.log_n

    @property
    def memory(self) -> int:
        return 128 * self.r * (1 << self.log_n)


# One of the equivalent settings for scrypt that OWASP's password storage cheat sheet recommends, the one with 16 MiB:
# a guess takes some 0.3 s of a core. The broker hashes a password once, however many clients log in with it.
COST: Final = Cost(14, 8, 5)
# A lower cost does not protect; with a higher one a file of users could exhaust the memory of the broker.
_LEAST_LOG_N, _MOST_MEMORY, _MOST_P = 10, 256 * 1024 * 1024, 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    cost: Cost
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> "PasswordHash":
        """Hash a new password. Raises SettingError for one that breaks the rules."""
        data = _password_bytes(password)
        if data is None or len(password) < limits.PASSWORD_LEAST:
            rule = f"{limits.PASSWORD_LEAST} characters or more, {limits.PASSWORD} bytes at most, and no NUL"
            raise SettingError(f"a password has {rule}")
        salt = os.urandom(_SALT)
        return cls(COST, salt, _scrypt(data, salt, COST))

    @classmethod
    def unmatchable(cls, cost: Cost | None = None) -> "PasswordHash":
        """A hash that no password matches; to check one takes as long as for a real hash."""
        return cls(cost or COST, os.urandom(_SALT), os.urandom(_DIGEST))

    @classmethod
    def parse(cls, text: str) -> "PasswordHash":
        match = _ENCODED.fullmatch(text)
        if match is None:
            raise SettingError("is not a password hash; `mqlab broker users` makes them")
        cost = Cost(int(match[1]), int(match[2]), int(match[3]))
        if cost.log_n < _LEAST_LOG_N or not 1 <= cost.p <= _MOST_P or not 1 <= cost.memory <= _MOST_MEMORY:
            raise SettingError("is a hash whose cost is out of bounds; set the password again")
        return cls(cost, base64.b64decode(match[4] + "=="), base64.b64decode(match[5] + "="))

    def matches(self, password: str) -> bool:
        """Slow. A text that cannot be a password is refused at once, which tells nothing about the user."""
        data = _password_bytes(password)
        return data is not None and hmac.compare_digest(_scrypt(data, self.salt, self.cost), self.digest)

    @property
    def is_weak(self) -> bool:
        """Whether a new hash would have a higher cost."""
        return self.cost.work < COST.work

    def encode(self) -> str:
        salt, digest = (base64.b64encode(part).decode().rstrip("=") for part in (self.salt, self.digest))
        return f"$scrypt$ln={self.cost.log_n},r={self.cost.r},p={self.cost.p}${salt}${digest}"


def _password_bytes(password: str) -> bytes | None:
    """Normalized UTF-8, since keyboards differ in how they send a letter. None: it cannot be a password.

    A password may not contain NUL: scrypt does not distinguish a password from the same one followed by NULs.
    """
    if len(password) > limits.PASSWORD or "\x00" in password:
        return None
    try:
        data = unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:
        return None
    return data if len(data) <= limits.PASSWORD else None


def _scrypt(data: bytes, salt: bytes, cost: Cost) -> bytes:
    max_memory = cost.memory + 128 * cost.r * (cost.p + 2)
    return hashlib.scrypt(data, salt=salt, n=1 << cost.log_n, r=cost.r, p=cost.p, dklen=_DIGEST, maxmem=max_memory)
