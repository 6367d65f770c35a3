"""Grouped payloads: one reference for many single messages on disk, since a reference each would take as much memory
as the messages."""

from array import array
from typing import Final

from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReference
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import join_singles

# Loading one of them reads all: as much as one read of a disk brings.
_MAX_BYTES: Final = 64 * 1024
_MAX_ROWS: Final = 256


class GroupedPayloads(PayloadReference):
    """Single messages with the same columns that follow one another on a queue. Other records may lie between them."""

    __slots__ = ("_begins", "_crcs", "_single_form", "_sizes", "columns", "origin")

    def __init__(self, file: PayloadFile, form: int, columns: bytes, origin: str) -> None:
        super().__init__(file, 0, 0, form & ~SINGLE)
        self.columns = columns
        self.origin = origin
        self._single_form = form
        self._begins, self._sizes, self._crcs = array("Q"), array("I"), array("I")

    def accepts(self, file: PayloadFile, form: int, columns: bytes, origin: str, size: int) -> bool:
        """Whether such a message can join the group."""
        if self.rows == _MAX_ROWS or self.size + size > _MAX_BYTES or file is not self._file:
            return False
        return columns == self.columns and form == self._single_form and origin == self.origin

    def add(self, begin: int, size: int, crc: int) -> None:
        self._begins.append(begin)
        self._sizes.append(size)
        self._crcs.append(crc)
        self.size += size
        self.rows += 1

    def _read(self) -> Payload:
        locations = zip(self._begins, self._sizes, self._crcs, strict=True)
        payloads = [Payload(self._read_at(*location), 1, self._single_form) for location in locations]
        return payloads[0] if len(payloads) == 1 else join_singles(payloads)
