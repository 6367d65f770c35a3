"""The ledger of a torture run: what was sent, what was confirmed and what was received.

Every message carries the number of its producer and its own number, so that each one is accounted for.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]

HEADER = np.dtype([("producer", "<u4"), ("seq", "<u8")])
BODY_SIZE = 64

# What is known of a sent message. FORBIDDEN: rolled back, or its commit was never asked for; it may never be seen.
SENT, CONFIRMED, UNKNOWN, FORBIDDEN = 1, 2, 3, 4


def bodies(producer: int, first: int, count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    rows = np.zeros((count, BODY_SIZE), dtype=np.uint8)
    head = np.empty(count, dtype=HEADER)
    head["producer"] = producer
    head["seq"] = np.arange(first, first + count)
    rows[:, : HEADER.itemsize] = head.view(np.uint8).reshape(count, -1)
    return rows.reshape(-1)


def read(table: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> tuple[int, Numbers]:
    """The producer and the numbers of messages that came together."""
    head = np.ascontiguousarray(table[:, : HEADER.itemsize]).view(HEADER).reshape(-1)
    assert len(set(head["producer"].tolist())) == 1, "one batch, one producer"
    return int(head["producer"][0]), head["seq"].astype(np.int64)


@dataclass
class GrowingArray:
    """One small number for each message of a producer."""

    values: "np.ndarray[tuple[int], np.dtype[np.uint8]]" = field(default_factory=lambda: np.zeros(1024, dtype=np.uint8))

    def up_to(self, last: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        if last >= len(self.values):
            more = np.zeros(max(last + 1, 2 * len(self.values)), dtype=np.uint8)
            more[: len(self.values)] = self.values
            self.values = more
        return self.values


@dataclass
class ConsumedMessages:
    """One producer's messages as one queue's consumer saw them."""

    times: GrowingArray = field(default_factory=GrowingArray)
    done: GrowingArray = field(default_factory=GrowingArray)
    last_new: int = -1


class Ledger:
    def __init__(self) -> None:
        self.states: dict[int, GrowingArray] = {}
        self.consumed: dict[tuple[str, int], ConsumedMessages] = {}
        self.transactions: list[tuple[str, int, int, int]] = []
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.examples: list[str] = []

    def sent(self, producer: int, first: int, count: int, state: int) -> None:
        states = self.states.setdefault(producer, GrowingArray()).up_to(first + count)
        states[first : first + count] = state
        if state == CONFIRMED:
            self.counts["confirmed"] += count
        elif state == UNKNOWN:
            self.counts["unknown"] += count
        elif state == FORBIDDEN:
            self.counts["rolled_back"] += count

    def transaction_in_doubt(self, queue: str, producer: int, first: int, count: int) -> None:
        self.transactions.append((queue, producer, first, count))

    def received(self, queue: str, producer: int, seqs: Numbers, redelivered: bool, last: int) -> int:
        """A consumer received these; `last` is the last it had of this producer since it connected. Return the new."""
        place = self.consumed.setdefault((queue, producer), ConsumedMessages())
        times, done = place.times.up_to(int(seqs.max()) + 1), place.done.up_to(int(seqs.max()) + 1)
        states = self.states.setdefault(producer, GrowingArray()).up_to(int(seqs.max()) + 1)
        again = times[seqs] > 0
        self._fault("phantom", producer, seqs[(states[seqs] == 0) | (states[seqs] == FORBIDDEN)])
        self._fault("came again after a confirmed commit", producer, seqs[done[seqs] > 0])
        if not redelivered:
            self._fault("duplicate without the mark", producer, seqs[again])
        ordered = np.concatenate(([last], seqs))
        self._fault("out of order", producer, seqs[np.diff(ordered) <= 0])
        new = seqs[~again]
        if len(new):
            self._fault("first seen out of order", producer, new[np.diff(np.concatenate(([place.last_new], new))) <= 0])
            place.last_new = int(new[-1])
        times[seqs] = np.minimum(times[seqs] + 1, 250)
        self.counts["received"] += len(seqs)
        self.counts["duplicates"] += int(again.sum())
        return int(seqs[-1])

    def committed(self, queue: str, producer: int, seqs: Numbers) -> None:
        """Consumed in a transaction whose commit was confirmed."""
        self.consumed[queue, producer].done.up_to(int(seqs.max()) + 1)[seqs] = 1

    def settle(self, ends: dict[int, tuple[str, ...]]) -> None:
        """Check at the end, with all queues empty. `ends`: the queues where each producer's messages must arrive."""
        for producer, queue in [(producer, queue) for producer, queues in ends.items() for queue in queues]:
            states = self.states.setdefault(producer, GrowingArray()).values
            times = self.consumed.setdefault((queue, producer), ConsumedMessages()).times.up_to(len(states))
            self._fault("lost", producer, np.flatnonzero((states == CONFIRMED) & (times[: len(states)] == 0)))
        for queue, producer, first, count in self.transactions:
            times = self.consumed.setdefault((queue, producer), ConsumedMessages()).times.up_to(first + count)
            there = int((times[first : first + count] > 0).sum())
            if there not in (0, count):
                self._fault("transaction in part", producer, np.arange(first, first + count))

    def _fault(self, what: str, producer: int, seqs: Numbers) -> None:
        if len(seqs):
            self.faults[what] += len(seqs)
            if len(self.examples) < 20:
                self.examples.append(f"{what}: producer {producer}, messages {seqs[:5].tolist()}...")
