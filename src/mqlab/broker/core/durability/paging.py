"""Paging: a queue's messages beyond its save extent move to disk, persistent or not.

The location of a payload on disk takes memory too, so single messages are joined into batches first.
"""

from itertools import pairwise
from typing import Final

import pyarrow as pa

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.queue import Queue
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import column_list, join_singles
from mqlab.wire.native.columns import decode_batch, encode_columns

# Bytes that are paged out together: reading so many costs little more than reading one message.
_PAGE_BYTES: Final = 256 * 1024
_MOST_SPANS: Final = 4096


def save_beyond_extent(queue: Queue, span: Span) -> None:
    """A message arrived and was not delivered: if the queue has too much in memory, page out, a page at a time."""
    if queue.in_memory <= queue.policy.save_extent:
        return
    spans, size = queue.add_page_candidate(span)
    if spans < _MOST_SPANS and size < _PAGE_BYTES:
        return
    for run in _runs(queue.take_page_candidates()):
        joined = _joined(queue, run)
        assert isinstance(joined.payload, Payload)
        stored = queue.context.page_out(joined.payload)
        if stored is not None:
            queue.page_out(joined, stored)


def _runs(spans: list[Span]) -> list[list[Span]]:
    """Spans that can become one: neighbours in a list, with consecutive ids, alike in all else."""
    if not spans:
        return []
    runs = [[spans[0]]]
    for span, following in pairwise(spans):
        if _follows(span, following) and column_list(span.whole()) == column_list(following.whole()):
            runs[-1].append(following)
        else:
            runs.append([following])
    return runs


def _follows(span: Span, following: Span) -> bool:
    if span.after is not following or span.last_id + 1 != following.first_id:
        return False
    whole = span.rows == span.payload.rows and following.rows == following.payload.rows
    return whole and _attributes(span) == _attributes(following) and not span.expires and not following.expires


def _attributes(span: Span) -> tuple[object, ...]:
    return span.persistent, span.delivered, span.doubtful, span.origin


def _joined(queue: Queue, run: list[Span]) -> Span:
    """Replace a run of spans by one."""
    first = run[0]
    if len(run) == 1:
        return first
    made = Span(
        _payload([span.whole() for span in run]), first.first_id, persistent=first.persistent,
        delivered=first.delivered, origin=first.origin, priority=first.priority, doubtful=first.doubtful,
    )  # fmt: skip
    queue.replace(run, [made])
    return made


def _payload(payloads: list[Payload]) -> Payload:
    if all(payload.form & SINGLE for payload in payloads):
        return join_singles(payloads)
    table = pa.Table.from_batches([decode_batch(payload) for payload in payloads]).combine_chunks()
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    return encode_columns(columns.pop("body"), columns)
