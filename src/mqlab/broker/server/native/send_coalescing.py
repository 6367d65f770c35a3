"""Coalesces single messages of one producer that arrived in one read into a batch.

Most of the cost of a message is per batch: without this, `headers` has 20 % fewer messages a second of processor time
(`bench/cpu_time.py OLD --key headers`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from mqlab.broker.core.broker import Core
from mqlab.broker.core.model.sessions import CoreProducer
from mqlab.broker.core.refusal import must_stay_single
from mqlab.broker.server.native.refusal_frames import REFUSALS, refusal
from mqlab.wire.native.coalescing import coalescible_runs, join_singles, split_batch
from mqlab.wire.native.frames import FORM, Flag, Frame
from mqlab.wire.native.payload import MalformedPayloadError, Payload

SEQUENCE_NUMBERS: Final = 2**63
# A payload is kept where it was received if it fills most of that memory, a chunk of 64 KiB; a smaller one is copied.
# The memory limit counts the payload, which holds the whole chunk: at most a seventh more.
KEEP_IN_PLACE: Final = 56 * 1024
# The shortest run that is worth coalescing.
_LEAST: Final = 4
_PERSISTENT, _CONFIRM = int(Flag.PERSISTENT), int(Flag.CONFIRM)


class SendCoalescer:
    def __init__(self, core: Core, producers: Mapping[int, CoreProducer], write: Callable[[bytes], None]) -> None:
        self._core = core
        self._producers = producers
        self._write = write

    def coalesce(self, frames: Sequence[Frame], allowed: Callable[[], bool]) -> Iterator[Frame]:
        """Send runs of single messages as batches while `allowed`; yield the frames that must be handled one by one."""
        for run in coalescible_runs(frames, KEEP_IN_PLACE):
            if len(run) < _LEAST or not allowed() or not self.try_send(run):
                yield from run

    def try_send(self, run: Sequence[Frame]) -> bool:
        """Return False, with nothing changed, if these messages must be handled one by one."""
        flags, last = run[0].flags, run[-1].first
        producer = self._producers.get(run[0].link)
        if producer is None or last >= SEQUENCE_NUMBERS or must_stay_single(producer.destination):
            return False
        single = [Payload(frame.payload, 1, flags & FORM) for frame in run]
        try:
            payload = join_singles(single)
        except MalformedPayloadError:
            # The messages before the malformed one are valid.
            return False
        cost = sum(len(message.data) for message in single)
        persistent, confirm = flags & _PERSISTENT > 0, flags & _CONFIRM > 0
        try:
            self._core.send(producer, payload, last, persistent=persistent, confirm=confirm, cost=cost)
        except REFUSALS as error:
            # The client may wait for each message.
            for frame in run:
                self._write(refusal(frame, error))
        return True


def send_individually(
    core: Core, producer: CoreProducer, payload: Payload, first: int, *, persistent: bool, confirm: bool
) -> None:
    """Send each message of a batch by itself, for a destination where that makes a difference. Raises CommandError."""
    singles = split_batch(payload)
    for number, single in enumerate(singles, first):
        # The producer may overdraw its credit with one batch, so only the last message is charged.
        last = number == first + len(singles) - 1
        core.send(
            producer, single, number, persistent=persistent, confirm=confirm, cost=len(payload.data) if last else 0
        )
