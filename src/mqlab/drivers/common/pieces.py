"""Messages that came in pieces, each of bodies of one size, as one arrival."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mqlab.drivers.api import ReceivedBatch
from mqlab.wire.native.payload import Bodies, equal_offsets


class Piece(Protocol):
    """`rows` bodies of one size, which lie one after the other in `data`."""

    @property
    def rows(self) -> int: ...

    @property
    def data(self) -> bytes: ...

    @property
    def redelivered(self) -> bool: ...


def arrival_of(pieces: Sequence[Piece]) -> ReceivedBatch:
    """At least one piece, all redelivered or none."""
    rows_of = [piece.rows for piece in pieces]
    sizes = [len(piece.data) // piece.rows for piece in pieces]
    whole = pieces[0].data if len(pieces) == 1 else b"".join([piece.data for piece in pieces])
    if min(sizes) == max(sizes):
        offsets = equal_offsets(sum(rows_of), sizes[0])
    else:
        offsets = np.zeros(sum(rows_of) + 1, dtype=np.int32)
        np.cumsum(np.repeat(sizes, rows_of), out=offsets[1:])
    return ReceivedBatch(Bodies(np.frombuffer(whole, np.uint8), offsets), pieces[0].redelivered)
