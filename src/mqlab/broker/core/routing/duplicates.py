"""Once-only delivery: a message whose producer-given id was seen before is confirmed and forgotten."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from mqlab.wire.native.columns import column, decode_single
from mqlab.wire.native.payload import SINGLE, Payload


class Sent(NamedTuple):
    """Producer-given ids of messages that a transaction has sent somewhere."""

    destination: str
    ids: list[str | None]
    persistent: bool


class Window:
    """The last ids that came to a destination."""

    def __init__(self, size: int, ids: Iterable[str] = ()) -> None:
        self._size = size
        # Whether the message with that id is persistent: only then the id must be known after a restart.
        self._ids: OrderedDict[str, bool] = OrderedDict.fromkeys(ids, True)
        self._shorten()

    @property
    def lasting(self) -> tuple[str, ...]:
        """Those of persistent messages, oldest first."""
        return tuple(one for one, persistent in self._ids.items() if persistent)

    def fresh(self, ids: list[str | None], *, persistent: bool) -> list[bool]:
        """Which of them are new; they are remembered."""
        flags = []
        for one in ids:
            new = one is None or one not in self._ids
            if one is not None and new:
                self._ids[one] = persistent
                self._shorten()
            flags.append(new)
        return flags

    def mark(self, ids: Iterable[str | None], *, lasting: bool) -> None:
        """Whether they must be known after a restart, as far as they are known now."""
        for one in ids:
            if one is not None and one in self._ids:
                self._ids[one] = lasting

    def forget(self, ids: Iterable[str | None]) -> None:
        """They did not happen after all."""
        for one in ids:
            if one is not None:
                self._ids.pop(one, None)

    def _shorten(self) -> None:
        while len(self._ids) > self._size:
            self._ids.popitem(last=False)


def ids_of(payload: Payload) -> list[str | None] | None:
    """The producer-given ids of its messages; None if none has one."""
    if payload.form & SINGLE:
        single = decode_single(payload).values.get("duplicate_id")
        return None if single is None else [single]
    found = column(payload, "duplicate_id")
    if found is None:
        return None
    ids: list[str | None] = found.to_pylist()
    return ids


def rows_of(flags: list[bool]) -> "np.ndarray[Any, Any]":
    return np.flatnonzero(np.array(flags))
