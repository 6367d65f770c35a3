"""The state that a journal describes, computed in the simplest way: records applied one by one to dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, fields

from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.core.model.messages import Span
from mqlab.broker.store.recovery.recovery import RecoveredState
from mqlab.wire.native.bodies import decode
from mqlab.wire.native.columns import column

# Queue number -> message id -> body.
Live = dict[int, dict[int, bytes]]


@dataclass
class JournalState:
    names: dict[int, str] = field(default_factory=dict)
    options: dict[int, dict[str, object]] = field(default_factory=dict)
    live: Live = field(default_factory=dict)
    # Name of the transaction -> the ids it puts and removes, by queue.
    prepared: dict[str, object] = field(default_factory=dict)
    remembered: dict[str, list[str]] = field(default_factory=dict)


class StatesByRecord:
    """The state after each record."""

    def __init__(self, records: Iterable[tuple[int, Record]] = ()) -> None:
        self._now = JournalState()
        self._prepared: dict[str, Prepare] = {}
        self._after: dict[int, JournalState] = {}
        self.last = 0
        for lsn, record in records:
            self.apply(lsn, record)

    def apply(self, lsn: int, record: Record) -> None:
        self._apply(record)
        self._now.prepared = {xid: comparable(one) for xid, one in self._prepared.items()}
        self._after[lsn] = deepcopy(self._now)
        self.last = lsn

    def after(self, lsn: int) -> JournalState:
        return self._after[lsn] if lsn else JournalState()

    def _apply(self, record: Record) -> None:
        if isinstance(record, Put):
            self._put(record)
        elif isinstance(record, Remove):
            self._remove(record)
        elif isinstance(record, Commit):
            for put in record.puts:
                self._put(put)
            for remove in record.removes:
                self._remove(remove)
        elif isinstance(record, Prepare):
            self._prepared[record.xid] = record
            for put in record.puts:
                self._remember(put)
        elif isinstance(record, Decide):
            self._decide(record)
        elif isinstance(record, Declare):
            self._now.names[record.queue] = record.name
            self._now.options[record.queue] = record.options
        elif isinstance(record, Forget):
            del self._now.names[record.queue], self._now.options[record.queue]
            assert not self._now.live.get(record.queue)
        elif isinstance(record, Remember):
            _add(self._now.remembered, record.destination, record.ids)

    def _put(self, put: Put) -> None:
        for queue, first_id in put.targets:
            bodies = decode(put.payload).tolist()
            self._now.live.setdefault(queue, {}).update({first_id + row: body for row, body in enumerate(bodies)})
        self._remember(put)

    def _remove(self, remove: Remove) -> None:
        live = self._now.live.get(remove.queue, {})
        for first, rows in remove.ranges:
            for number in range(first, first + rows):
                del live[number]
        if not live:
            self._now.live.pop(remove.queue, None)

    def _decide(self, record: Decide) -> None:
        prepared = self._prepared.pop(record.xid, None)
        if prepared is None:
            return
        if record.commit:
            for put in prepared.puts:
                self._put(put)
            for remove in prepared.removes:
                self._remove(remove)
        else:
            for put in prepared.puts:
                known = self._now.remembered.get(self._destination(put), [])
                known[:] = [one for one in known if one not in ids_in(put)]

    def _remember(self, put: Put) -> None:
        _add(self._now.remembered, self._destination(put), ids_in(put))

    def _destination(self, put: Put) -> str:
        return put.origin or "queue:" + self._now.names[put.targets[0][0]]


def ids_in(put: Put) -> list[str]:
    ids = column(put.payload, "duplicate_id")
    return [] if ids is None else [one for one in ids.to_pylist() if one is not None]


def _add(remembered: dict[str, list[str]], destination: str, ids: Iterable[str]) -> None:
    known = remembered.setdefault(destination, [])
    known += [one for one in ids if one not in known]


def comparable(prepare: Prepare) -> object:
    """Comparable."""
    puts = [(one.targets, bytes(one.payload.data), *one.payload[1:], one.origin) for one in prepare.puts]
    return puts, prepare.removes


def ids_of(span: Span) -> list[int]:
    return [one for first, rows in span.ranges() for one in range(first, first + rows)]


def state_of(recovered: RecoveredState) -> JournalState:
    found = JournalState(remembered=recovered.remembered)
    for number, queue in recovered.queues.items():
        found.names[number], found.options[number] = queue.name, queue.options
        messages: dict[int, bytes] = {}
        last = 0
        for span in queue.spans():
            assert span.first_id > last, "not in the order of the ids, or twice"
            last = span.last_id
            assert span.persistent
            messages |= zip(ids_of(span), decode(span.encoded()).tolist(), strict=True)
        assert last < queue.next_id
        assert number <= recovered.last_queue
        if messages:
            found.live[number] = messages
    found.prepared = {xid: comparable(one) for xid, one in recovered.prepared.items()}
    return found


def differences(found: JournalState, expected: JournalState) -> dict[str, object]:
    """The fields that differ, with both values."""
    expected.remembered = {destination: ids for destination, ids in expected.remembered.items() if ids}
    pairs = {one.name: (getattr(found, one.name), getattr(expected, one.name)) for one in fields(JournalState)}
    return {name: (was, should_be) for name, (was, should_be) in pairs.items() if was != should_be}
