"""Checkpoints: what the journal must say again before a file of it can go."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Put
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import Session
from mqlab.broker.core.transactions.two_phase_commit import TwoPhaseCommit


def carry_forward(
    destinations: DestinationRegistry, records: PendingRecords, two_phase_commit: TwoPhaseCommit,
    sessions: Iterable[Session], intervals: Mapping[int, list[tuple[int, int]]], xids: Sequence[str], waiter: object,
) -> None:  # fmt: skip
    """Append again what is still needed of these ids ([first, end) of each queue) and of these transactions."""
    in_hand = [pair for session in sessions for pair in session.transaction.acknowledged]
    in_hand += two_phase_commit.removed()
    hidden = two_phase_commit.placed()
    for number, wanted in intervals.items():
        queue = destinations.numbered.get(number)
        if queue is not None and wanted:
            for put in _still_needed(queue, wanted, [span for owner, span in in_hand if owner is queue], hidden):
                records.append(put, waiter)
    two_phase_commit.say_again(xids, waiter)


def _puts(queue: Queue, span: Span) -> list[Put]:
    """What the journal must know of messages that are there."""
    if isinstance(span.index, range):
        return [Put(((queue.number, span.first_id),), span.encoded(), span.origin)]
    rows = np.asarray(span.index)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    parts = (span.of_rows(range(int(run[0]), int(run[-1]) + 1)) for run in runs)
    return [Put(((queue.number, part.first_id),), part.encoded(), part.origin) for part in parts]


def _still_needed(
    queue: Queue, wanted: Sequence[tuple[int, int]], in_hand: Iterable[Span], hidden: Container[Span]
) -> Iterator[Put]:
    """What the journal must say again of the messages with these ids, [first, end), on the queue or in hand."""
    ranges = [(first, end - first) for first, end in wanted]
    for span in (*everything(queue, min(wanted)[0], max(end for _, end in wanted)), *in_hand):
        part = span.chosen(span.within(ranges)) if span.persistent and span not in hidden else None
        if part is not None:
            yield from _puts(queue, part)


def everything(queue: Queue, first: int = 0, end: int = sys.maxsize) -> list[Span]:
    """All that it answers for with ids from `first` to before `end`, but what transactions have in hand."""
    in_line = chain.from_iterable(line.until(end) for line in queue.span_lists)
    given = (span for consumer in queue.consumers for _, span in consumer.unacknowledged)
    spans = chain(in_line, queue.delayed(), given, queue.unseen, queue.returned)
    return [span for span in spans if span.first_id < end and span.last_id >= first]
