"""The users of a broker in a YAML file: each name under `users` has a hash as `password`, and `rights`, such as
`{read: [queue:orders.#, topic:prices.*], write: [all]}`.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from mqlab.broker import limits
from mqlab.broker.security.passwords import PasswordHash
from mqlab.broker.security.rights import RIGHTS, Right, Rights, User, check_right
from mqlab.broker.settings import SettingError
from mqlab.broker.yaml_file import YamlNode, read_yaml

# Similar letters, blanks and line ends would make user names ambiguous in a log.
_NAME: Final = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.@+-]{{0,{limits.USER_NAME - 1}}}")
_NAME_RULE: Final = f"it has 1 to {limits.USER_NAME} of a-z A-Z 0-9 _ . @ + - and does not begin with . @ + -"
_HEAD: Final = "# The users of a broker. `mqlab broker users` changes it; rights are read, write, create and admin.\n"


class _Entry(NamedTuple):
    user: User
    password: PasswordHash


class Users:
    """Names, hashed passwords and rights. Methods raise SettingError."""

    def __init__(self, entries: dict[str, _Entry] | None = None) -> None:
        self._entries = entries or {}
        # Hashes for unknown users, with the same costs as those of the known users.
        costs = [entry.password.cost for entry in self._entries.values()]
        self._stand_ins = [PasswordHash.unmatchable(cost) for cost in costs] or [PasswordHash.unmatchable()]

    @classmethod
    def empty(cls) -> "Users":
        return cls()

    @classmethod
    def read(cls, path: Path) -> "Users":
        users = read_yaml(path).mapping(("users",)).get("users")
        return cls({name: _entry(name, node) for name, node in users.mapping().items()} if users else None)

    def write(self, path: Path) -> None:
        """Write the file atomically, readable by its owner only."""
        users = {name: _to_yaml(entry) for name, entry in sorted(self._entries.items())}
        text = yaml.safe_dump({"users": users}, sort_keys=False, default_flow_style=None, width=10_000)
        try:
            write_atomically(path, (_HEAD + text).encode())
        except OSError as error:
            raise SettingError(f"{path}: cannot be written: {error.strerror}") from None

    @classmethod
    @contextmanager
    def change(cls, path: Path) -> Iterator["Users"]:
        """Yield the users of a file (none without a file), and write them back; other processes wait."""
        if not path.resolve().parent.is_dir():
            raise SettingError(f"{path}: there is no folder for it")
        with exclusive_lock(path):
            users = cls.read(path) if path.exists() else cls.empty()
            yield users
            users.write(path)

    def login(self, name: str, password: str) -> User | None:
        """Return None for an unknown user or a wrong password; both take the same time.

        It computes for some tenths of a second: call it in a thread.
        """
        entry = self._entries.get(name)
        # Python's hash of a text is seeded with a secret, so the cost of an unknown name cannot be predicted.
        stand_in = self._stand_ins[hash(name) % len(self._stand_ins)]
        matches = (entry.password if entry else stand_in).matches(password)
        return entry.user if entry and matches else None

    def entry(self, name: str) -> tuple[User, PasswordHash] | None:
        return self._entries.get(name)

    @property
    def weak(self) -> list[str]:
        """Names of users whose hashes have a lower cost than new ones."""
        return sorted(name for name, entry in self._entries.items() if entry.password.is_weak)

    def add(self, name: str, password: str, rights: Rights = Rights()) -> None:  # noqa: B008 - it is frozen
        if _NAME.fullmatch(name) is None:
            raise SettingError(f"{name[:80]!r} is not a user name; {_NAME_RULE}")
        if name in self._entries:
            raise SettingError(f"there is a user {name} already")
        self._entries[name] = _Entry(User(name, rights), PasswordHash.of(password))

    def remove(self, name: str) -> None:
        self._entry(name)
        del self._entries[name]

    def set_password(self, name: str, password: str) -> None:
        self._entries[name] = self._entry(name)._replace(password=PasswordHash.of(password))

    def grant(self, name: str, right: Right, pattern: str) -> None:
        self._set_rights(name, self._entry(name).user.rights.granted(right, pattern))

    def revoke(self, name: str, right: Right, pattern: str) -> None:
        self._set_rights(name, self._entry(name).user.rights.revoked(right, pattern))

    def __iter__(self) -> Iterator[User]:
        return (entry.user for _, entry in sorted(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Users({', '.join(sorted(self._entries))})"

    def _entry(self, name: str) -> _Entry:
        entry = self._entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self._entries)) or "none"
            raise SettingError(f"there is no user {name[:80]!r}; there are: {known}")
        return entry

    def _set_rights(self, name: str, rights: Rights) -> None:
        entry = self._entry(name)
        self._entries[name] = entry._replace(user=replace(entry.user, rights=rights))


def _entry(name: str, node: YamlNode) -> _Entry:
    if _NAME.fullmatch(name) is None:
        raise node.error(f"is not a user name; {_NAME_RULE}")
    keys = node.mapping(("password", "rights"))
    if "password" not in keys:
        raise node.error("needs a password")
    password = keys["password"].text()
    try:
        hashed = PasswordHash.parse(password)
    except SettingError as error:
        raise keys["password"].error(str(error)) from None
    return _Entry(User(name, _rights(keys["rights"]) if "rights" in keys else Rights()), hashed)


def _rights(node: YamlNode) -> Rights:
    rights = Rights()
    for right, patterns in node.mapping(RIGHTS).items():
        for item in patterns.items():
            try:
                rights = rights.granted(check_right(right), item.text())
            except SettingError as error:
                raise item.error(str(error)) from None
    return rights


def _to_yaml(entry: _Entry) -> dict[str, object]:
    rights = {right: list(entry.user.rights.of(right)) for right in RIGHTS if entry.user.rights.of(right)}
    return {"password": entry.password.encode(), "rights": rights}


def write_atomically(path: Path, data: bytes) -> None:
    """After any crash the file holds the old bytes or the new ones. Only its owner can read it."""
    # The path may be a link: the file that it points to must change.
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(file, "wb") as stream:
            os.fchmod(stream.fileno(), 0o600)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    with _folder(path.parent) as folder:
        os.fsync(folder)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock of the same folder."""
    with _folder(path.resolve().parent) as folder:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield


@contextmanager
def _folder(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield file
    finally:
        os.close(file)
