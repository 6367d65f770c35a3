"""The methods of a connection, of any protocol, that the broker calls."""

from typing import Protocol

from mqlab.broker.security.rights import User
from mqlab.json_values import JsonObject


class OpenConnection(Protocol):
    """A connection, maybe before its login; then its client id is ""."""

    client_id: str

    @property
    def user(self) -> User: ...

    def drop(self, *, taken_over: bool = False) -> None: ...

    def describe(self) -> JsonObject | None: ...


class Flushable(Protocol):
    def flush(self) -> None: ...
