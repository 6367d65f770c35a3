"""Where recovery leaves payloads: in memory as long as there is room, then in the journal."""

from collections.abc import Iterable
from typing import Final

import google_crc32c
import numpy as np

from mqlab.broker.store.payloads.grouped import Together
from mqlab.broker.store.payloads.stored import Home, StandIn, Stored
from mqlab.broker.store.recovery.decoding import PutAt
from mqlab.broker.store.recovery.duplicate_ids import columns_in
from mqlab.broker.store.recovery.live_ranges import Part
from mqlab.broker.store.recovery.single_messages import Run
from mqlab.wire.native.bodies import COLUMNS, SINGLE, Payload

# About what a payload takes in memory beside its bytes, with all that leads to it.
EACH: Final = 600
_SINGLE_FORMS: Final = (SINGLE, SINGLE | COLUMNS)
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

    def hold(self, put: PutAt, followed: Together | None) -> Payload | StandIn:
        """What stands for its messages: perhaps the same as for those that they follow on all of their queues."""
        begin, end, form = put.begin, put.end, put.form
        if self.kept + end - begin <= self.most:
            self.kept += end - begin + EACH
            return Payload(self.data[begin:end], put.rows, form)
        crc = google_crc32c.value(self.bytes[begin:end])
        if form not in _SINGLE_FORMS:
            return Stored(self._home, begin, end - begin, put.rows, form, crc)
        columns = columns_in(self.data, begin, form)
        if followed is None or not followed.takes(self._home, form, columns, put.origin, end - begin):
            followed = Together(self._home, form, columns, put.origin)
        followed.add(begin, end - begin, crc)
        return followed

    def hold_run(self, run: Run) -> Payload | StandIn:
        """The same for single messages that can be put together."""
        if self.kept + int(run.sizes.sum()) <= self.most:
            payload = run.payload(self.data, self.bytes)
            self.kept += len(payload.data) + EACH
            return payload
        together = Together(self._home, SINGLE, b"", "")
        for begin, size in zip(run.begins.tolist(), run.sizes.tolist(), strict=True):
            together.add(begin, size, google_crc32c.value(self.data[begin : begin + size]))
        return together

    def count(self, parts: Iterable[Part]) -> None:
        """These are all there are."""
        if self.kept > self.most // 2:
            # Where several queues have a message, it is in memory once.
            held = {id(part.payload): part.payload for part in parts}
            self.kept = sum(len(one.data) + EACH for one in held.values() if isinstance(one, Payload))


def followed_by(targets: Iterable[tuple[int, int]], last: Iterable[Part | None]) -> Together | None:
    """What stands for the messages just before these on all queues they go to, by the last part of each."""
    together = None
    for (_, first_id), part in zip(targets, last, strict=True):
        if part is None or part.end != first_id or not isinstance(part.payload, Together):
            return None
        if together not in (None, part.payload) or part.base + part.payload.rows != first_id:
            return None
        together = part.payload
    return together
