"""Where recovery leaves payloads: in memory as long as there is room, then in the journal."""

from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.store.parts import Part
from mqlab.broker.store.records import PutAt
from mqlab.broker.store.remembering import columns_in
from mqlab.broker.store.stored import Home, OnDisk, Stored
from mqlab.broker.store.together import Together
from mqlab.wire.bodies import COLUMNS, LONE, Payload

# About what a payload takes in memory beside its bytes, with all that leads to it.
EACH: Final = 600
_LONE_FORMS: Final = (LONE, LONE | COLUMNS)
_NOTHING: Final = np.empty(0, dtype=np.uint8)


class Holding:
    def __init__(self, keep_in_memory: int) -> None:
        # Bytes of payloads in memory, as far as is known, and how many there may be before the next one.
        self.kept = 0
        self.most = keep_in_memory - EACH
        # The file being read, also as an array: the checksum takes no memoryview.
        self.data, self.bytes = b"", _NOTHING
        self._home: Home

    def begin_file(self, data: bytes, home: Home) -> None:
        self.data, self.bytes, self._home = data, np.frombuffer(data, dtype=np.uint8), home

    def end_file(self) -> None:
        """A file at a time is enough in memory."""
        self.data, self.bytes = b"", _NOTHING

    def hold(self, put: PutAt, last: list[Part | None]) -> Payload | OnDisk:
        """What stands for its messages. `last` is the last part of each queue they go to: it may be what stands for
        that one, and then for both."""
        size = put.end - put.begin
        if self.kept + size <= self.most:
            self.kept += size + EACH
            return Payload(self.data[put.begin : put.end], put.rows, put.form)
        crc = google_crc32c.value(self.bytes[put.begin : put.end])
        if put.form not in _LONE_FORMS:
            return Stored(self._home, put.begin, size, put.rows, put.form, crc)
        columns = columns_in(self.data, put.begin, put.form)
        together = _followed(put, last)
        if together is None or not together.takes(self._home, put.form, columns, put.origin, size):
            together = Together(self._home, put.form, columns, put.origin)
        together.add(put.begin, size, crc)
        return together

    def count(self, parts: Iterable[Part]) -> None:
        """These are all there are."""
        if self.kept > self.most // 2:
            # Where several queues have a message, it is in memory once.
            held = {id(part.payload): part.payload for part in parts}
            self.kept = sum(len(one.data) + EACH for one in held.values() if isinstance(one, Payload))


def _followed(put: PutAt, last: list[Part | None]) -> Together | None:
    """What stands for the messages just before these, on all queues they go to."""
    together = last[0].payload if last[0] is not None else None
    if not isinstance(together, Together):
        return None
    for part, (_, first_id) in zip(last, put.targets, strict=True):
        if part is None or part.payload is not together or not part.base + together.rows == part.end == first_id:
            return None
    return together
