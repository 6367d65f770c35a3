"""What is in a message of the lab: the producer (4 bytes), its sequence number (8 bytes), then filler."""

import struct
from typing import Any, Final

import numpy as np

from mqlab.drivers.base import Matrix
from mqlab.wire.bodies import Bodies

ID_SIZE: Final = 12
_ID: Final = struct.Struct("<IQ")


class BodyMaker:
    """Bodies of one producer, made in place: only the sequence numbers change from batch to batch."""

    def __init__(self, producer: int, size: int, most: int) -> None:
        kind = np.dtype({"names": ["producer", "seq"], "formats": ["<u4", "<u8"], "offsets": [0, 4], "itemsize": size})
        records = np.zeros(most, dtype=kind)
        self._matrix: Matrix = records.view(np.uint8).reshape(most, size)
        # Filler that does not compress to nothing, the same for every message.
        self._matrix[:, ID_SIZE:] = np.arange(size - ID_SIZE, dtype=np.uint64).astype(np.uint8)
        records["producer"] = producer
        self._seq: Any = records["seq"]
        self._steps = np.arange(most, dtype=np.uint64)

    def make(self, first_seq: int, rows: int) -> Matrix:
        """Valid until the next call."""
        np.add(self._steps[:rows], np.uint64(first_seq), out=self._seq[:rows])
        return self._matrix[:rows]


def ranges(bodies: Bodies) -> list[tuple[int, int, int, int]]:
    """(producer, first sequence number, count, bytes) of each run of consecutive messages, in their order."""
    rows = len(bodies)
    if rows == 1:
        producer, seq = _ID.unpack_from(bodies.data.data, int(bodies.offsets[0]))
        return [(producer, seq, 1, bodies.nbytes)]
    producers, seqs = _ids(bodies)
    # A step of one within a producer goes on; anything else begins a new range.
    breaks = np.flatnonzero((seqs[1:] - seqs[:-1] != 1) | (producers[1:] != producers[:-1])) + 1
    if not len(breaks):
        return [(int(producers[0]), int(seqs[0]), rows, bodies.nbytes)]
    starts = [0, *breaks.tolist()]
    ends = [*breaks.tolist(), rows]
    offsets = bodies.offsets
    return [
        (int(producers[a]), int(seqs[a]), b - a, int(offsets[b]) - int(offsets[a]))
        for a, b in zip(starts, ends, strict=True)
    ]


def _ids(bodies: Bodies) -> tuple[Any, Any]:
    table = bodies.table()
    heads = np.ascontiguousarray(_gathered(bodies) if table is None else table[:, :ID_SIZE])
    ids = heads.view(np.dtype({"names": ["producer", "seq"], "formats": ["<u4", "<u8"], "offsets": [0, 4]}))
    return ids["producer"].reshape(-1), ids["seq"].reshape(-1)


def _gathered(bodies: Bodies) -> Matrix:
    """The first bytes of bodies of different sizes."""
    heads: Matrix = bodies.data[bodies.offsets[:-1, None] + np.arange(ID_SIZE)]
    return heads
