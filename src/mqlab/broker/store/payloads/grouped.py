"""Single messages on disk: one stand-in for many of them, since one for each would take as much memory as they do."""

from array import array
from typing import Final

from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReference
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import join_singles

# Who wants one of them reads all: as much as one read of a disk brings, and no more than is put together at once.
_MOST_BYTES: Final = 64 * 1024
_MOST_ROWS: Final = 256


class GroupedPayloads(PayloadReference):
    """Single messages with the same columns that follow one another on a queue. Other records may lie between them."""

    __slots__ = ("_begins", "_crcs", "_single", "_sizes", "columns", "origin")

    def __init__(self, home: PayloadFile, form: int, columns: bytes, origin: str) -> None:
        super().__init__(home, 0, 0, form & ~SINGLE)
        self.columns = columns
        self.origin = origin
        self._single = form
        self._begins, self._sizes, self._crcs = array("Q"), array("I"), array("I")

    def takes(self, home: PayloadFile, form: int, columns: bytes, origin: str, size: int) -> bool:
        """Whether another such message can join them."""
        if self.rows == _MOST_ROWS or self.size + size > _MOST_BYTES or home is not self._file_of_payload:
            return False
        return columns == self.columns and form == self._single and origin == self.origin

    def add(self, begin: int, size: int, crc: int) -> None:
        self._begins.append(begin)
        self._sizes.append(size)
        self._crcs.append(crc)
        self.size += size
        self.rows += 1

    def _read(self) -> Payload:
        places = zip(self._begins, self._sizes, self._crcs, strict=True)
        payloads = [Payload(self._read_at(*place), 1, self._single) for place in places]
        return payloads[0] if len(payloads) == 1 else join_singles(payloads)
