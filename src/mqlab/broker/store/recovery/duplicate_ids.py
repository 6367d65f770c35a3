"""Ids that producers gave, found in a journal: by these a destination knows a message that is sent again."""

from collections.abc import Iterable
from typing import Final

from mqlab.broker.core.durability.records import Remember
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Buffer, MalformedPayloadError, Payload
from mqlab.wire.native.columns import column, decode_single, has_column

_COLUMN: Final = "duplicate_id"
# Programs have a few kinds of messages; whoever makes up others all the time is not worth the memory.
_MOST_LISTS: Final = 1000


class DuplicateIds:
    def __init__(self) -> None:
        # By destination, oldest first.
        self._known: dict[str, dict[str, None]] = {}
        # Lists of columns without such ids: payloads that have one of them need not be looked at.
        self.without: set[bytes] = set()

    def begin_file(self, remembered: Iterable[Remember]) -> None:
        """Its head says all that must be remembered of the files before it."""
        self._known = {}
        for destination, ids in remembered:
            self.add(destination, ids)

    def look_at(self, destination: str, payload: Payload, *, happened: bool) -> None:
        """It may have such ids; `happened`: False if what was prepared is rolled back."""
        ids = _ids_in(payload)
        if ids is None:
            if len(self.without) < _MOST_LISTS:
                self.without.add(column_list(payload.data, 0, payload.form))
        elif happened:
            self.add(destination, ids)
        else:
            self._forget(destination, ids)

    def add(self, destination: str, ids: Iterable[str]) -> None:
        """An id that is known stays where it was: its message was carried forward."""
        known = self._known.setdefault(destination, {})
        known |= dict.fromkeys(ids)

    def drop(self, destination: str) -> None:
        """It is gone, and all that was sent there."""
        self._known.pop(destination, None)

    def _forget(self, destination: str, ids: Iterable[str]) -> None:
        for one in ids:
            self._known.get(destination, {}).pop(one, None)

    def found(self) -> dict[str, list[str]]:
        return {destination: [*ids] for destination, ids in self._known.items() if ids}


def column_list(data: Buffer, begin: int, form: int) -> bytes:
    """The list of columns of a payload that begins there, as it is written: its length, then its text."""
    length = int.from_bytes(data[begin : begin + 2], "little")
    return bytes(data[begin : begin + 2 + length]) if form & COLUMNS else b""


def _ids_in(payload: Payload) -> list[str] | None:
    """None: it has no such column."""
    try:
        if not has_column(payload, _COLUMN):
            return None
        if payload.form & SINGLE:
            return [decode_single(payload).values[_COLUMN]]
        ids = column(payload, _COLUMN)
    except MalformedPayloadError:
        # Nobody could read it, so nobody was promised anything by such a column.
        return []
    return [] if ids is None else [one for one in ids.to_pylist() if one is not None]
