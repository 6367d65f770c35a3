"""Duplicate ids: the ids that producers gave, by which a destination recognises a message that is sent again."""

from collections.abc import Iterable
from typing import Final

from mqlab.broker.core.durability.records import Remember
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Buffer, MalformedPayloadError, Payload
from mqlab.wire.native.columns import column, decode_single, has_column

_COLUMN: Final = "duplicate_id"
# Programs have a few kinds of messages; one that invents column lists all the time is not worth the memory.
_MAX_COLUMN_LISTS: Final = 1000


class DuplicateIds:
    """The ids that each destination must recognise, as far as the journal has been read."""

    def __init__(self) -> None:
        # By destination, oldest first.
        self._ids: dict[str, dict[str, None]] = {}
        # Column lists without duplicate ids: payloads with one of them need not be decoded.
        self.lists_without_ids: set[bytes] = set()

    def begin_file(self, remembered: Iterable[Remember]) -> None:
        """Start from the header of a file, which names all ids to remember from the files before it."""
        self._ids = {}
        for destination, ids in remembered:
            self.add(destination, ids)

    def note_payload(self, destination: str, payload: Payload, *, is_rolled_back: bool = False) -> None:
        """Add the ids of a payload, or remove them if its transaction is rolled back."""
        ids = _ids_in(payload)
        if ids is None:
            if len(self.lists_without_ids) < _MAX_COLUMN_LISTS:
                self.lists_without_ids.add(column_list(payload.data, 0, payload.form))
        elif is_rolled_back:
            known = self._ids.get(destination, {})
            for duplicate_id in ids:
                known.pop(duplicate_id, None)
        else:
            self.add(destination, ids)

    def add(self, destination: str, ids: Iterable[str]) -> None:
        """A known id keeps its position: a checkpoint wrote its message again."""
        known = self._ids.setdefault(destination, {})
        known |= dict.fromkeys(ids)

    def drop(self, destination: str) -> None:
        """The destination was deleted."""
        self._ids.pop(destination, None)

    def by_destination(self) -> dict[str, list[str]]:
        return {destination: [*ids] for destination, ids in self._ids.items() if ids}


def column_list(data: Buffer, begin: int, form: int) -> bytes:
    """The encoded column list of a payload that begins at this byte: its length, then its text."""
    length = int.from_bytes(data[begin : begin + 2], "little")
    return bytes(data[begin : begin + 2 + length]) if form & COLUMNS else b""


def _ids_in(payload: Payload) -> list[str] | None:
    """None: the payload has no column of duplicate ids."""
    try:
        if not has_column(payload, _COLUMN):
            return None
        if payload.form & SINGLE:
            return [decode_single(payload).values[_COLUMN]]
        ids = column(payload, _COLUMN)
    except MalformedPayloadError:
        # The broker could not read it when it was sent either, so it has promised nothing for these ids.
        return []
    return [] if ids is None else [duplicate_id for duplicate_id in ids.to_pylist() if duplicate_id is not None]
