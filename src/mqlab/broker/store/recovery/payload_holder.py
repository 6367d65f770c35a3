"""Where recovery leaves payloads: in memory up to a limit, beyond it in the journal."""

from array import array
from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReference, StoredPayload
from mqlab.broker.store.recovery.decoding import PutLocation
from mqlab.broker.store.recovery.duplicate_ids import column_list
from mqlab.broker.store.recovery.live_ranges import LiveRange
from mqlab.broker.store.recovery.single_messages import SingleMessageRun
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload
from mqlab.wire.native.coalescing import join_singles

# About what a payload takes in memory besides its data, with all objects that lead to it.
PAYLOAD_OVERHEAD_BYTES: Final = 600
_SINGLE_FORMS: Final = (SINGLE, SINGLE | COLUMNS)
_EMPTY: Final = np.empty(0, dtype=np.uint8)
# Of a group of payloads. Loading one of them reads all: as much as one read of a disk brings.
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


class PayloadHolder:
    def __init__(self, keep_in_memory: int) -> None:
        # Bytes of payloads in memory, about, and how many there may be before the next one is added.
        self.memory_bytes = 0
        self.limit_bytes = keep_in_memory - PAYLOAD_OVERHEAD_BYTES
        # The file that is being read, also as an array: the checksum takes no memoryview.
        self.data, self.array = b"", _EMPTY
        self._file: PayloadFile

    def begin_file(self, data: bytes, file: PayloadFile) -> None:
        self.data, self.array, self._file = data, np.frombuffer(data, dtype=np.uint8), file

    def end_file(self) -> None:
        """Free the file's data: there is memory for one file at a time."""
        self.data, self.array = b"", _EMPTY

    def hold(self, put: PutLocation, preceding: GroupedPayloads | None) -> Payload | PayloadReference:
        """The payload of a put, or a reference to it; `preceding`, if the message can join that group."""
        begin, end, form = put.begin, put.end, put.form
        if self.memory_bytes + end - begin <= self.limit_bytes:
            self.memory_bytes += end - begin + PAYLOAD_OVERHEAD_BYTES
            return Payload(self.data[begin:end], put.rows, form)
        crc = google_crc32c.value(self.array[begin:end])
        if form not in _SINGLE_FORMS:
            return StoredPayload(self._file, begin, end - begin, put.rows, form, crc)
        columns = column_list(self.data, begin, form)
        group = preceding
        if group is None or not group.accepts(self._file, form, columns, put.origin, end - begin):
            group = GroupedPayloads(self._file, form, columns, put.origin)
        group.add(begin, end - begin, crc)
        return group

    def hold_run(self, run: SingleMessageRun) -> Payload | PayloadReference:
        """The same for a run of single messages."""
        if self.memory_bytes + int(run.sizes.sum()) <= self.limit_bytes:
            payload = run.payload(self.data, self.array)
            self.memory_bytes += len(payload.data) + PAYLOAD_OVERHEAD_BYTES
            return payload
        group = GroupedPayloads(self._file, SINGLE, b"", "")
        for begin, size in zip(run.begins.tolist(), run.sizes.tolist(), strict=True):
            group.add(begin, size, google_crc32c.value(self.data[begin : begin + size]))
        return group

    def recount(self, ranges: Iterable[LiveRange]) -> None:
        """Count the memory of these ranges, which are all that are live."""
        if self.memory_bytes > self.limit_bytes // 2:
            # A message on several queues is in memory once.
            payloads = {id(live.payload): live.payload for live in ranges}
            self.memory_bytes = sum(
                len(payload.data) + PAYLOAD_OVERHEAD_BYTES
                for payload in payloads.values()
                if isinstance(payload, Payload)
            )


def preceding_group(
    targets: Iterable[tuple[int, int]], last_ranges: Iterable[LiveRange | None]
) -> GroupedPayloads | None:
    """The group that ends just before these ids on all of their queues, given the last live range of each queue."""
    group = None
    for (_, first_id), live in zip(targets, last_ranges, strict=True):
        if live is None or live.end != first_id or not isinstance(live.payload, GroupedPayloads):
            return None
        if group not in (None, live.payload) or live.base + live.payload.rows != first_id:
            return None
        group = live.payload
    return group
