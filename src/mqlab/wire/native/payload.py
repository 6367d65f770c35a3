"""The payload of a message frame, and its bodies in memory."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqlab.errors import MqlabError

Buffer = bytes | bytearray | memoryview
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Offsets = np.ndarray[tuple[int], np.dtype[np.int32]]
# Some rows of a payload; and a flag for each row.
RowNumbers = npt.NDArray[np.int64]
RowIndex = range | RowNumbers
RowFlags = npt.NDArray[np.bool_]

# The forms of a payload, as bits: one message without a record batch; columns beside the bodies; a batch of messages
# that an application sent one by one, so that a queue deals them to its consumers one by one.
SINGLE: Final = 1
COLUMNS: Final = 16
COALESCED: Final = 32

BINARY: Final = pa.binary()


class MalformedPayloadError(MqlabError, ValueError):
    """The payload is invalid, or not what its frame announced."""


class Payload(NamedTuple):
    """`rows` messages, encoded as the bits of `form` say."""

    data: Buffer
    rows: int
    form: int


class Bodies:
    """Message bodies in one array: body i is `data[offsets[i]:offsets[i + 1]]`."""

    __slots__ = ("data", "offsets")

    def __init__(self, data: Bytes, offsets: Offsets) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def of(cls, bodies: Sequence[Buffer]) -> "Bodies":
        """From separate bodies. Several are copied, a single one is not."""
        if len(bodies) == 1:
            return cls(np.frombuffer(bodies[0], dtype=np.uint8), equal_offsets(1, len(bodies[0])))
        return cls(np.frombuffer(b"".join(bodies), dtype=np.uint8), offsets_of(bodies))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        return int(self.offsets[-1]) - int(self.offsets[0])

    def __getitem__(self, row: int) -> bytes:
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def tolist(self) -> list[bytes]:
        if len(self) == 1:
            return [self[0]]
        bodies: list[bytes] = self.column().to_pylist()
        return bodies

    def column(self) -> pa.Array:
        return pa.Array.from_buffers(BINARY, len(self), [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)])

    def table(self) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]] | None":
        """The bodies as the rows of a matrix; None unless all have the same size."""
        rows, begin = len(self), int(self.offsets[0])
        size, rest = divmod(self.nbytes, rows) if rows else (0, 0)
        offsets, steps = self.offsets - begin if begin else self.offsets, equal_offsets(rows, size)
        if rest or (rows > 1 and offsets is not steps and not bool((offsets == steps).all())):
            return None
        return self.data[begin : begin + rows * size].reshape(rows, size)


def offsets_of(bodies: Sequence[Buffer]) -> Offsets:
    """The offsets of these bodies, one behind the other."""
    sizes = {*map(len, bodies)}
    if len(sizes) == 1:
        return equal_offsets(len(bodies), sizes.pop())
    offsets = np.zeros(len(bodies) + 1, dtype=np.int32)
    np.cumsum([*map(len, bodies)], out=offsets[1:])
    return offsets


def equal_offsets(rows: int, size: int) -> Offsets:
    """The offsets of `rows` bodies of one size. They are a prefix of a cached array, since `rows` varies."""
    cached = _cached_offsets(size)
    steps = cached[0]
    if len(steps) == rows + 1:
        return steps
    if len(steps) <= rows:
        capacity = min(2 * rows, 0x7FFFFFFF // size) if len(steps) and size else rows
        steps = cached[0] = np.arange(max(rows, capacity) + 1, dtype=np.int32) * np.int32(size)
        steps.flags.writeable = False
    return steps[: rows + 1]


@lru_cache(maxsize=64)
def _cached_offsets(size: int) -> list[Offsets]:  # noqa: ARG001 - the key of the cache
    return [np.empty(0, dtype=np.int32)]
