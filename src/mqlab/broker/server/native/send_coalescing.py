"""Joins single messages of one producer that arrive together into a batch: a batch costs little more than a message."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from mqlab.broker.core.broker import Core
from mqlab.broker.core.model.sessions import Producer
from mqlab.broker.core.refusal import must_stay_single
from mqlab.broker.server.native.refusal_frames import REFUSALS, refusal
from mqlab.wire.native.coalescing import coalescible_runs, join_singles, split_batch
from mqlab.wire.native.frames import FORM, Flag, Frame
from mqlab.wire.native.payload import MalformedPayloadError, Payload, payload_of

SEQUENCE_NUMBERS: Final = 2**63
# A payload is kept where it was received if it fills most of that memory, a chunk of 64 KiB; a smaller one is copied.
# What counts for the memory limit is the payload, and what it keeps is the whole chunk: a seventh more at the most.
KEEP_IN_PLACE: Final = 56 * 1024
# Messages that are worth it.
_LEAST: Final = 4
_PERSISTENT, _CONFIRM = int(Flag.PERSISTENT), int(Flag.CONFIRM)


class SendCoalescer:
    def __init__(self, core: Core, producers: Mapping[int, Producer], write: Callable[[bytes], None]) -> None:
        self._core = core
        self._producers = producers
        self._write = write

    def rest_of(self, frames: Sequence[Frame], may: Callable[[], bool]) -> Iterator[Frame]:
        """What has to come one by one; the others are sent on the way, as long as they may."""
        for run in coalescible_runs(frames, KEEP_IN_PLACE):
            if len(run) < _LEAST or not may() or not self.sent(run):
                yield from run

    def sent(self, run: Sequence[Frame]) -> bool:
        """False: these messages have to come one by one, and nothing has happened yet."""
        flags, last = run[0].flags, run[-1].first
        producer = self._producers.get(run[0].link)
        if producer is None or last >= SEQUENCE_NUMBERS or must_stay_single(producer.destination):
            return False
        single = [payload_of((frame.payload, 1, flags & FORM)) for frame in run]
        try:
            payload = join_singles(single)
        except MalformedPayloadError:
            # Those before it are good.
            return False
        cost = sum(len(one.data) for one in single)
        persistent, confirm = flags & _PERSISTENT > 0, flags & _CONFIRM > 0
        try:
            self._core.send(producer, payload, last, persistent=persistent, confirm=confirm, cost=cost)
        except REFUSALS as error:
            # Each by itself: somebody may wait for each.
            for frame in run:
                self._write(refusal(frame, error))
        return True


def send_individually(
    core: Core, producer: Producer, payload: Payload, first: int, *, persistent: bool, confirm: bool
) -> None:
    """Send each message of a batch by itself, where that makes a difference. Raises RefusedError."""
    singles = split_batch(payload)
    for number, single in enumerate(singles, first):
        # The producer may send a batch beyond its credit. So no message before the last may use it up.
        last = number == first + len(singles) - 1
        core.send(
            producer, single, number, persistent=persistent, confirm=confirm, cost=len(payload.data) if last else 0
        )
