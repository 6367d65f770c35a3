"""Checkpoints: records that repeat what an old journal file still holds, so that the file can go."""

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from mqlab.broker.core.durability.pending_records import PendingRecords
from mqlab.broker.core.durability.records import Put
from mqlab.broker.core.model.destinations import DestinationRegistry
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.broker.core.model.sessions import CoreSession
from mqlab.broker.core.transactions.two_phase_commit import TwoPhaseCommit


def append_checkpoint(
    destinations: DestinationRegistry, records: PendingRecords, two_phase_commit: TwoPhaseCommit, waiter: object,
    sessions: Iterable[CoreSession], intervals: Mapping[int, list[tuple[int, int]]], xids: Sequence[str],
) -> None:  # fmt: skip
    """Append again what is still needed of these ids ([first, end) of each queue) and prepared transactions."""
    acknowledged = [pair for session in sessions for pair in session.transaction.acknowledged]
    acknowledged += two_phase_commit.removed()
    prepared = two_phase_commit.placed()
    for number, ranges in intervals.items():
        queue = destinations.numbered.get(number)
        if queue is not None and ranges:
            spans = [span for owner, span in acknowledged if owner is queue]
            for put in _still_needed(queue, ranges, spans, prepared):
                records.append(put, waiter)
    two_phase_commit.append_again(xids, waiter)


def _puts(queue: Queue, span: Span) -> list[Put]:
    """The records of a span: one for each run of consecutive ids."""
    if isinstance(span.index, range):
        return [Put(((queue.number, span.first_id),), span.encoded(), span.origin)]
    rows = np.asarray(span.index)
    runs = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    parts = (span.of_rows(range(int(run[0]), int(run[-1]) + 1)) for run in runs)
    return [Put(((queue.number, part.first_id),), part.encoded(), part.origin) for part in parts]


def _still_needed(
    queue: Queue, intervals: Sequence[tuple[int, int]], acknowledged: Iterable[Span], prepared: Container[Span]
) -> Iterator[Put]:
    """Records of messages with ids in the intervals, on the queue or acknowledged in an open transaction."""
    ranges = [(first, end - first) for first, end in intervals]
    for span in (*all_spans(queue, min(intervals)[0], max(end for _, end in intervals)), *acknowledged):
        part = span.chosen(span.within(ranges)) if span.persistent and span not in prepared else None
        if part is not None:
            yield from _puts(queue, part)


def all_spans(queue: Queue, first: int = 0, end: int = sys.maxsize) -> list[Span]:
    """All spans with ids from `first` to before `end`, but those that transactions have acknowledged."""
    listed = chain.from_iterable(span_list.until(end) for span_list in queue.span_lists)
    unacknowledged = (span for consumer in queue.consumers for _, span in consumer.unacknowledged)
    spans = chain(listed, queue.delayed(), unacknowledged, queue.hidden, queue.requeued)
    return [span for span in spans if span.first_id < end and span.last_id >= first]
