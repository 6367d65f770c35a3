"""The record of what a consumer or a responder receives: ranges of messages, with the bodies compared."""

from typing import Final

import numpy as np
import numpy.typing as npt

from mqlab.drivers import ReceivedBatch, RequestBatch
from mqlab.events.recorder import NO_TIME, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import message_ranges, message_ranges_of
from mqlab.runner.agents.varied.bodies import Check

_FEWEST_NUMBERS: Final = 4096


class ReceivedNumbers:
    """The messages that came to the consumers of an agent, however often each of them came."""

    def __init__(self) -> None:
        # A flag for each sequence number, by destination, subscription and producer.
        self._flags: dict[tuple[int, int, int], npt.NDArray[np.bool_]] = {}

    def add(self, role: Role, producer: int, first_seq: int, count: int) -> None:
        key, end = (role.destination, role.subscription, producer), first_seq + count
        flags = self._flags.get(key)
        if flags is None or len(flags) < end:
            longer = np.zeros(max(_FEWEST_NUMBERS, 2 * end), np.bool_)
            longer[: 0 if flags is None else len(flags)] = False if flags is None else flags
            flags = self._flags[key] = longer
        flags[first_seq:end] = True

    def ranges(self) -> list[tuple[int, int, int, int, int]]:
        """Ranges [first, end) of messages: destination, subscription, producer, first, end."""
        found = []
        for key, flags in self._flags.items():
            edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0)).tolist()
            found += [(*key, first, end) for first, end in zip(edges[::2], edges[1::2], strict=True)]
        return found


class ReceiptLog:
    """The receipts of one role. Those of a transaction are recorded with the time of its commit."""

    def __init__(
        self, role: Role, check: Check, recorder: Recorder, *, transacted: bool = False,
        received: ReceivedNumbers | None = None,
    ) -> None:  # fmt: skip
        self._role = role
        self._received = received
        self._check = check
        self._uncommitted = recorder.receipts.pending()
        self._append = self._uncommitted.append if transacted else recorder.receipts.append
        self._ordinal = 0

    def record(self, arrival: ReceivedBatch, received: int) -> None:
        """Record messages. Raises ForeignMessageError."""
        ranges, damaged = message_ranges(arrival.bodies), self._check.find_damaged(arrival.bodies)
        self._record_ranges(ranges, damaged, received, arrival.redelivered)

    def record_requests(self, requests: RequestBatch, received: int) -> None:
        """Record requests. Raises ForeignMessageError."""
        ranges, damaged = message_ranges_of(requests.bodies), self._check.find_damaged_of(requests.bodies)
        self._record_ranges(ranges, damaged, received, requests.redelivered)

    def _record_ranges(
        self, ranges: list[tuple[int, int, int, int]], damaged: npt.NDArray[np.bool_] | None, received: int,
        redelivered: bool,
    ) -> None:  # fmt: skip
        row = 0
        for producer, first_seq, count, size_bytes in ranges:
            self._append(
                consumer=self._role.number, destination=self._role.destination, producer=producer,
                first_seq=first_seq, count=count, bytes=size_bytes, ordinal=self._ordinal, t_received=received,
                damaged=0 if damaged is None else int(damaged[row : row + count].sum()),
                redelivered=redelivered, t_acknowledged=NO_TIME,
            )  # fmt: skip
            if self._received is not None:
                self._received.add(self._role, producer, first_seq, count)
            self._ordinal += 1
            row += count

    def commit(self, committed: int) -> None:
        """Record the receipts of the transaction; `committed` is NO_TIME if its commit failed."""
        self._uncommitted.release(t_acknowledged=committed)
