"""The record of what a consumer or a responder receives: ranges of messages, with the bodies compared."""

from mqlab.drivers import ReceivedBatch
from mqlab.events.recorder import NO_TIME, Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyCheck, message_ranges


class ReceiptLog:
    """The receipts of one role. Those of a transaction are recorded with the time of its commit."""

    def __init__(self, role: Role, size: int, recorder: Recorder, *, transacted: bool = False) -> None:
        self._role = role
        self._check = BodyCheck(size)
        self._uncommitted = recorder.receipts.pending()
        self._append = self._uncommitted.append if transacted else recorder.receipts.append
        self._ordinal = 0

    def record(self, arrival: ReceivedBatch, received: int) -> list[tuple[int, int, int, int]]:
        """Record the messages, and return their ranges. Raises ForeignMessageError."""
        ranges = message_ranges(arrival.bodies)
        damaged, row = self._check.find_damaged(arrival.bodies), 0
        for producer, first_seq, count, size_bytes in ranges:
            self._append(
                consumer=self._role.number, destination=self._role.destination, producer=producer,
                first_seq=first_seq, count=count, bytes=size_bytes, ordinal=self._ordinal, t_received=received,
                damaged=0 if damaged is None else int(damaged[row : row + count].sum()),
                redelivered=arrival.redelivered, t_acknowledged=NO_TIME,
            )  # fmt: skip
            self._ordinal += 1
            row += count
        return ranges

    def commit(self, committed: int) -> None:
        """Record the receipts of the transaction; `committed` is NO_TIME if its commit failed."""
        self._uncommitted.release(t_acknowledged=committed)
