"""Passwords as scrypt hashes: slow to compute, so slow to guess. Nothing here shows or keeps a password in clear."""

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
_WRITTEN: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})", re.ASCII
)


class Cost(NamedTuple):
    """2**log_n steps over 128 * r * 2**log_n bytes of memory, p times."""

    log_n: int
    r: int
    p: int

    @property
    def work(self) -> int:
        """To compare costs: how much it reads and writes."""
        return self.r * self.p << self.log_n

    @property
    def memory(self) -> int:
        return 128 * self.r * (1 << self.log_n)


# One of the equivalent settings for scrypt that OWASP's password storage cheat sheet recommends, the one with 16 MiB:
# some 0.3 s of a core for a guess. The broker hashes a password once, however many clients log in with it.
COST: Final = Cost(14, 8, 5)
# A hash below is no protection; one above would let a file take the memory of the broker.
_LEAST_LOG_N, _MOST_MEMORY, _MOST_P = 10, 256 * 1024 * 1024, 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    cost: Cost
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str) -> "PasswordHash":
        """Of a new password, which must keep the rules."""
        data = _encoded(password)
        if data is None or len(password) < limits.PASSWORD_LEAST:
            rule = f"{limits.PASSWORD_LEAST} characters or more, {limits.PASSWORD} bytes at most, and no NUL"
            raise SettingError(f"a password has {rule}")
        salt = os.urandom(_SALT)
        return cls(COST, salt, _scrypt(data, salt, COST))

    @classmethod
    def unmatchable(cls, cost: Cost | None = None) -> "PasswordHash":
        """No password fits, and finding that out takes as long as for a real one."""
        return cls(cost or COST, os.urandom(_SALT), os.urandom(_DIGEST))

    @classmethod
    def parse(cls, text: str) -> "PasswordHash":
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise SettingError("is no hash of a password; `mqlab broker users` makes them")
        cost = Cost(int(found[1]), int(found[2]), int(found[3]))
        if cost.log_n < _LEAST_LOG_N or not 1 <= cost.p <= _MOST_P or not 1 <= cost.memory <= _MOST_MEMORY:
            raise SettingError("is a hash whose cost is out of bounds; set the password again")
        return cls(cost, base64.b64decode(found[4] + "=="), base64.b64decode(found[5] + "="))

    def fits(self, password: str) -> bool:
        """Takes its time. A password that cannot be one is refused at once: that tells nothing of the user."""
        data = _encoded(password)
        return data is not None and hmac.compare_digest(_scrypt(data, self.salt, self.cost), self.digest)

    @property
    def is_weak(self) -> bool:
        """It was made with less work than a new one would be."""
        return self.cost.work < COST.work

    def written(self) -> str:
        salt, digest = (base64.b64encode(part).decode().rstrip("=") for part in (self.salt, self.digest))
        return f"$scrypt$ln={self.cost.log_n},r={self.cost.r},p={self.cost.p}${salt}${digest}"


def _encoded(password: str) -> bytes | None:
    """Composed, since keyboards differ in how they send the same letter; None: it is too long or no text.

    Nor may it have a NUL: scrypt takes a password and the same one with NULs behind it for equal.
    """
    if len(password) > limits.PASSWORD or "\x00" in password:
        return None
    try:
        data = unicodedata.normalize("NFC", password).encode()
    except UnicodeEncodeError:
        return None
    return data if len(data) <= limits.PASSWORD else None


def _scrypt(data: bytes, salt: bytes, cost: Cost) -> bytes:
    room = cost.memory + 128 * cost.r * (cost.p + 2)
    return hashlib.scrypt(data, salt=salt, n=1 << cost.log_n, r=cost.r, p=cost.p, dklen=_DIGEST, maxmem=room)
