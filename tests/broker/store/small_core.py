"""A minimal core: it appends every kind of record, and writes again what a checkpoint asks for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from mqlab.broker.core.durability.pending_records import journal_bytes
from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.store.recovery.recovery import RecoveredState
from mqlab.wire.native.bodies import Payload, decode, encode
from mqlab.wire.native.columns import encode_columns

from .journal_state import ids_in, ids_of

Emit = Callable[[Record, bool], None]


class Message(NamedTuple):
    body: bytes
    # By its producer, against duplicates; "": none.
    id: str = ""
    origin: str = ""


@dataclass
class SmallQueue:
    number: int
    name: str
    next_id: int = 1
    options: dict[str, object] = field(default_factory=dict)
    live: dict[int, Message] = field(default_factory=dict)
    # Of these, the ones that a prepared transaction removes.
    held: set[int] = field(default_factory=set)


class SmallCore:
    def __init__(self, seed: int, emit: Emit) -> None:
        self.chance = random.Random(seed)
        self.emit = emit
        self.queues: dict[int, SmallQueue] = {}
        self.prepared: dict[str, Prepare] = {}
        self.known: dict[str, list[str]] = {}
        self.last_queue = 0
        # While the disk is full, nothing is put.
        self.full = False
        # Whether the journal cannot take so many bytes more.
        self.lacks_room: Callable[[int], bool] = lambda _: False
        self._numbers = self._xids = 0

    def restore(self, found: RecoveredState) -> None:
        for number, recovered in found.queues.items():
            queue = self.queues[number] = SmallQueue(number, recovered.name, recovered.next_id, recovered.options)
            for span in recovered.spans():
                put = Put(((number, span.first_id),), span.encoded(), span.origin)
                queue.live.update(zip(ids_of(span), messages_in(put), strict=True))
        self.prepared = dict(found.prepared)
        for prepare in self.prepared.values():
            for queue_number, ranges in prepare.removes:
                self.queues[queue_number].held.update(_each(ranges))
        self.known = {destination: [*ids] for destination, ids in found.remembered.items()}
        self.last_queue = found.last_queue
        self._numbers = self._xids = 10_000 + found.lsn

    # What it may do next

    def declare(self) -> None:
        if len(self.queues) < 4:
            self.last_queue += 1
            queue = SmallQueue(self.last_queue, f"queue {self.last_queue}", options={"since": self.last_queue})
            self.queues[queue.number] = queue
            self.emit(Declare(queue.number, queue.name, queue.next_id, queue.options), False)

    def forget(self) -> None:
        """A queue goes: what is on it first."""
        named = {queue for one in self.prepared.values() for put in one.puts for queue, _ in put.targets}
        free = [queue for queue in self.queues.values() if not queue.held and queue.number not in named]
        if len(self.queues) < 3 or not free:
            return
        queue = self.chance.choice(free)
        if queue.live:
            self.emit(Remove(queue.number, _ranges(queue.live)), False)
        del self.queues[queue.number]
        self.emit(Forget(queue.number), False)

    def send(self) -> None:
        if (put := self._put()) and not self._lack_room((put,)):
            self._place(put)
            self.emit(put, True)

    def remove(self) -> None:
        if (remove := self._remove()) is not None:
            self._take(remove)
            self.emit(remove, False)

    def commit(self) -> None:
        puts, removes = self._parts()
        if self._lack_room(puts):
            return
        for put in puts:
            self._place(put)
        for remove in removes:
            self._take(remove)
        if puts or removes:
            self.emit(Commit(puts, removes), True)

    def prepare(self) -> None:
        if len(self.prepared) > 2:
            return
        puts, removes = self._parts()
        if (not puts and not removes) or self._lack_room(puts):
            return
        self._xids += 1
        prepare = Prepare(f"xid {self._xids}", puts, removes)
        self.prepared[prepare.xid] = prepare
        for queue, ranges in removes:
            self.queues[queue].held.update(_each(ranges))
        for put in puts:
            self._remember(put)
        self.emit(prepare, True)

    def decide(self) -> None:
        if not self.prepared:
            # As one that was decided before, and is asked for once more.
            self.emit(Decide("unknown", True), False)
            return
        prepare = self.prepared.pop(self.chance.choice([*self.prepared]))
        commit = self.chance.random() < 0.6
        for put in prepare.puts:
            if commit:
                self._place(put)
            else:
                known = self.known.get(self._destination(put), [])
                known[:] = [one for one in known if one not in ids_in(put)]
        for queue, ranges in prepare.removes:
            self.queues[queue].held.difference_update(_each(ranges))
            if commit:
                self._take(Remove(queue, ranges))
        self.emit(Decide(prepare.xid, commit), True)

    # What the journal asks for

    def declarations(self) -> list[Declare]:
        return [Declare(one.number, one.name, one.next_id, one.options) for one in self.queues.values()]

    def remembered(self) -> list[Remember]:
        return [Remember(destination, tuple(ids)) for destination, ids in self.known.items() if ids]

    def carry_forward(self, intervals: dict[int, list[tuple[int, int]]], xids: Sequence[str]) -> None:
        for number, wanted in intervals.items():
            queue = self.queues.get(number)
            if queue is None:
                continue
            found = sorted(one for one in queue.live if any(first <= one < end for first, end in wanted))
            for first, messages in _runs(found, queue.live):
                self.emit(Put(((number, first),), payload_of(messages), messages[0].origin), False)
        for xid in xids:
            if xid in self.prepared:
                self.emit(self.prepared[xid], False)

    # TransactionBody

    def _put(self) -> Put | None:
        if not self.queues or self.full:
            return None
        rows = self.chance.choice((1, 1, 2, 5))
        named = self.chance.random() < 0.3
        fill = b"." * self.chance.choice((0, 10, 90))
        several = self.chance.random() < 0.2
        targets = self.chance.sample([*self.queues.values()], k=min(2, len(self.queues)) if several else 1)
        messages = []
        for _ in range(rows):
            self._numbers += 1
            messages.append(Message(b"%d " % self._numbers + fill, f"id {self._numbers}" if named else ""))
        first_ids = tuple((one.number, one.next_id) for one in targets)
        for one in targets:
            # Some ids go to messages that nobody keeps.
            one.next_id += rows + self.chance.choice((0, 0, 3))
        return Put(first_ids, payload_of(messages), "topic:t" if several else "")

    def _remove(self) -> Remove | None:
        """From the front of a queue, or from anywhere in it."""
        if not self.queues:
            return None
        queue = self.chance.choice([*self.queues.values()])
        ids = [one for one in queue.live if one not in queue.held]
        if not ids:
            return None
        count = self.chance.randint(1, min(len(ids), 6))
        chosen = ids[:count] if self.chance.random() < 0.7 else self.chance.sample(ids, count)
        return Remove(queue.number, _ranges(chosen))

    def _parts(self) -> tuple[tuple[Put, ...], tuple[Remove, ...]]:
        puts = tuple(put for _ in range(self.chance.choice((0, 1, 2))) if (put := self._put()))
        remove = self._remove()
        return puts, () if remove is None else (remove,)

    def _lack_room(self, puts: Sequence[Put]) -> bool:
        return bool(puts) and self.lacks_room(sum(map(journal_bytes, puts)))

    def _place(self, put: Put) -> None:
        for number, first_id in put.targets:
            messages = messages_in(put)
            self.queues[number].live.update(zip(range(first_id, first_id + len(messages)), messages, strict=True))
        self._remember(put)

    def _take(self, remove: Remove) -> None:
        for one in _each(remove.ranges):
            del self.queues[remove.queue].live[one]

    def _remember(self, put: Put) -> None:
        known = self.known.setdefault(self._destination(put), [])
        known += [one for one in ids_in(put) if one not in known]

    def _destination(self, put: Put) -> str:
        return put.origin or "queue:" + self.queues[put.targets[0][0]].name


def payload_of(messages: Sequence[Message]) -> Payload:
    bodies = [message.body for message in messages]
    if not messages[0].id:
        return encode(bodies)
    return encode_columns(pa.array(bodies, pa.binary()), {"duplicate_id": pa.array([one.id for one in messages])})


def messages_in(put: Put) -> list[Message]:
    bodies = decode(put.payload).tolist()
    ids = ids_in(put) or [""] * len(bodies)
    return [Message(body, one, put.origin) for body, one in zip(bodies, ids, strict=True)]


def _runs(ids: list[int], live: dict[int, Message]) -> Iterator[tuple[int, list[Message]]]:
    """Neighbours that can be put together: of one destination, all with an id or none."""
    keys = ((one - at, live[one].origin, bool(live[one].id)) for at, one in enumerate(ids))
    for _, group in groupby(zip(ids, keys, strict=True), key=lambda pair: pair[1]):
        run = [one for one, _ in group]
        yield run[0], [live[one] for one in run]


def _ranges(ids: Sequence[int] | dict[int, Message]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for one in sorted(ids):
        if found and sum(found[-1]) == one:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((one, 1))
    return tuple(found)


def _each(ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    for first, rows in ranges:
        yield from range(first, first + rows)
