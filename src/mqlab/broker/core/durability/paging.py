"""Save extent: what a queue holds beyond a set size waits on disk, persistent or not, and comes back in order.

A single message on disk would still cost the memory that says where it is, so single messages are put together first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.model.span_replacement import replace
from mqlab.wire.native.bodies import SINGLE, Payload
from mqlab.wire.native.coalescing import column_list, join_singles
from mqlab.wire.native.columns import decode_batch, encode_columns

if TYPE_CHECKING:
    from mqlab.broker.core.model.queue import Queue

# What goes to disk at once: a read of so much costs little more than one of a single message.
_PAGE: Final = 256 * 1024
_MOST_TOGETHER: Final = 4096


def save_beyond(queue: Queue, span: Span) -> None:
    """A message has come and nobody took it: if there is too much, it goes to disk, with others like it."""
    if queue.in_memory <= queue.policy.save_extent:
        return
    queue.beyond.append(span)
    queue.beyond_size += span.size
    if len(queue.beyond) < _MOST_TOGETHER and queue.beyond_size < _PAGE:
        return
    spans = [one for one in queue.beyond if one.span_list is not None and one.in_memory]
    queue.beyond, queue.beyond_size = [], 0
    for run in _runs(spans):
        _to_disk(queue, _joined(queue, run))


def _to_disk(queue: Queue, span: Span) -> None:
    assert isinstance(span.payload, Payload)
    stored = queue.context.page_out(span.payload)
    if stored is None:
        return
    full = queue.full
    queue.release(span)
    span.moved(stored)
    queue.reserve(span)
    queue.full |= full
    queue.counters.saved += span.rows


def _runs(spans: list[Span]) -> list[list[Span]]:
    """Spans that can become one: neighbours in line, with ids that follow one another, alike in all else."""
    if not spans:
        return []
    runs = [[spans[0]]]
    for one, other in pairwise(spans):
        if _follows(one, other) and column_list(one.whole()) == column_list(other.whole()):
            runs[-1].append(other)
        else:
            runs.append([other])
    return runs


def _follows(one: Span, other: Span) -> bool:
    if one.after is not other or one.last_id + 1 != other.first_id:
        return False
    whole = one.rows == one.payload.rows and other.rows == other.payload.rows
    return whole and _marks(one) == _marks(other) and not one.expires and not other.expires


def _marks(span: Span) -> tuple[object, ...]:
    return span.persistent, span.delivered, span.doubtful, span.origin


def _joined(queue: Queue, run: list[Span]) -> Span:
    """One span in the place of many."""
    first = run[0]
    if len(run) == 1:
        return first
    made = Span(
        _payload([span.whole() for span in run]), first.first_id, persistent=first.persistent,
        delivered=first.delivered, origin=first.origin, priority=first.priority, doubtful=first.doubtful,
    )  # fmt: skip
    replace(queue, run, [made])
    return made


def _payload(payloads: list[Payload]) -> Payload:
    if all(payload.form & SINGLE for payload in payloads):
        return join_singles(payloads)
    table = pa.Table.from_batches([decode_batch(payload) for payload in payloads]).combine_chunks()
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    return encode_columns(columns.pop("body"), columns)
