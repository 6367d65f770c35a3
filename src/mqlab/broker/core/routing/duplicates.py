"""Duplicate detection: the broker confirms and drops a message whose duplicate id it has seen before."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from mqlab.wire.native.columns import column, decode_single
from mqlab.wire.native.payload import SINGLE, Payload, RowNumbers


class SentIds(NamedTuple):
    """Duplicate ids of messages that a transaction has sent to a destination."""

    destination: str
    ids: list[str | None]
    persistent: bool


class DuplicateWindow:
    """The last duplicate ids that came to a destination."""

    def __init__(self, size: int, ids: Iterable[str] = ()) -> None:
        self._size = size
        # Whether the id must be known after a restart: its message is persistent.
        self._ids: OrderedDict[str, bool] = OrderedDict.fromkeys(ids, True)
        self._shorten()

    @property
    def persistent_ids(self) -> tuple[str, ...]:
        """The ids of persistent messages, oldest first."""
        return tuple(duplicate_id for duplicate_id, persistent in self._ids.items() if persistent)

    def add(self, ids: list[str | None], *, persistent: bool) -> list[bool]:
        """Remember ids. Returns which of them are new; a message without an id always is."""
        flags = []
        for duplicate_id in ids:
            is_new = duplicate_id is None or duplicate_id not in self._ids
            if duplicate_id is not None and is_new:
                self._ids[duplicate_id] = persistent
                self._shorten()
            flags.append(is_new)
        return flags

    def mark(self, ids: Iterable[str | None], *, persistent: bool) -> None:
        """Set whether remembered ids must be known after a restart."""
        for duplicate_id in ids:
            if duplicate_id is not None and duplicate_id in self._ids:
                self._ids[duplicate_id] = persistent

    def forget(self, ids: Iterable[str | None]) -> None:
        """The messages were not sent after all."""
        for duplicate_id in ids:
            if duplicate_id is not None:
                self._ids.pop(duplicate_id, None)

    def _shorten(self) -> None:
        while len(self._ids) > self._size:
            self._ids.popitem(last=False)


def ids_of(payload: Payload) -> list[str | None] | None:
    """The duplicate ids of its messages; None if no message has one."""
    if payload.form & SINGLE:
        duplicate_id = decode_single(payload).values.get("duplicate_id")
        return None if duplicate_id is None else [duplicate_id]
    values = column(payload, "duplicate_id")
    if values is None:
        return None
    ids: list[str | None] = values.to_pylist()
    return ids


def rows_of(flags: list[bool]) -> RowNumbers:
    return np.flatnonzero(np.array(flags))
