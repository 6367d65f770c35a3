"""Where recovery leaves payloads: in memory as long as there is room, then in the journal."""

from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.store.payloads.grouped import GroupedPayloads
from mqlab.broker.store.payloads.stored import PayloadFile, PayloadReference, StoredPayload
from mqlab.broker.store.recovery.decoding import PutLocation
from mqlab.broker.store.recovery.duplicate_ids import column_list
from mqlab.broker.store.recovery.live_ranges import LiveRange
from mqlab.broker.store.recovery.single_messages import MessageRun
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

# About what a payload takes in memory beside its bytes, with all that leads to it.
PAYLOAD_OVERHEAD_BYTES: Final = 600
_SINGLE_FORMS: Final = (SINGLE, SINGLE | COLUMNS)
_NOTHING: Final = np.empty(0, dtype=np.uint8)


class PayloadHolder:
    def __init__(self, keep_in_memory: int) -> None:
        # Bytes of payloads in memory, as far as is known, and how many there may be before the next one.
        self.kept = 0
        self.most = keep_in_memory - PAYLOAD_OVERHEAD_BYTES
        # The file being read, also as an array: the checksum takes no memoryview.
        self.data, self.bytes = b"", _NOTHING
        self._file_of_payload: PayloadFile

    def begin_file(self, data: bytes, home: PayloadFile) -> None:
        self.data, self.bytes, self._file_of_payload = data, np.frombuffer(data, dtype=np.uint8), home

    def end_file(self) -> None:
        """A file at a time is enough in memory."""
        self.data, self.bytes = b"", _NOTHING

    def hold(self, put: PutLocation, followed: GroupedPayloads | None) -> Payload | PayloadReference:
        """What stands for its messages: perhaps the same as for those that they follow on all of their queues."""
        begin, end, form = put.begin, put.end, put.form
        if self.kept + end - begin <= self.most:
            self.kept += end - begin + PAYLOAD_OVERHEAD_BYTES
            return Payload(self.data[begin:end], put.rows, form)
        crc = google_crc32c.value(self.bytes[begin:end])
        if form not in _SINGLE_FORMS:
            return StoredPayload(self._file_of_payload, begin, end - begin, put.rows, form, crc)
        columns = column_list(self.data, begin, form)
        if followed is None or not followed.takes(self._file_of_payload, form, columns, put.origin, end - begin):
            followed = GroupedPayloads(self._file_of_payload, form, columns, put.origin)
        followed.add(begin, end - begin, crc)
        return followed

    def hold_run(self, run: MessageRun) -> Payload | PayloadReference:
        """The same for single messages that can be put together."""
        if self.kept + int(run.sizes.sum()) <= self.most:
            payload = run.payload(self.data, self.bytes)
            self.kept += len(payload.data) + PAYLOAD_OVERHEAD_BYTES
            return payload
        together = GroupedPayloads(self._file_of_payload, SINGLE, b"", "")
        for begin, size in zip(run.begins.tolist(), run.sizes.tolist(), strict=True):
            together.add(begin, size, google_crc32c.value(self.data[begin : begin + size]))
        return together

    def count(self, parts: Iterable[LiveRange]) -> None:
        """These are all there are."""
        if self.kept > self.most // 2:
            # Where several queues have a message, it is in memory once.
            held = {id(part.payload): part.payload for part in parts}
            self.kept = sum(len(one.data) + PAYLOAD_OVERHEAD_BYTES for one in held.values() if isinstance(one, Payload))


def preceding_group(targets: Iterable[tuple[int, int]], last: Iterable[LiveRange | None]) -> GroupedPayloads | None:
    """What stands for the messages just before these on all queues they go to, by the last part of each."""
    together = None
    for (_, first_id), part in zip(targets, last, strict=True):
        if part is None or part.end != first_id or not isinstance(part.payload, GroupedPayloads):
            return None
        if together not in (None, part.payload) or part.base + part.payload.rows != first_id:
            return None
        together = part.payload
    return together
