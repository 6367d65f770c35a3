"""A reference recovery made of dictionaries: it applies the records of a journal message by message."""

from collections.abc import Iterable
from typing import NamedTuple

from mqlab.broker.core.broker import Core
from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.core.durability.restore import restore
from mqlab.broker.core.model.messages import Span
from mqlab.broker.core.routing.duplicates import ids_of
from mqlab.json_values import JsonObject
from mqlab.wire.native.bodies import Payload, decode


class Kept(NamedTuple):
    """One message: a row of what was put."""

    payload: Payload
    row: int
    base: int
    origin: str

    @property
    def body(self) -> bytes:
        return decode(self.payload)[self.row]


class KeptQueue:
    """A queue as it is found after a restart: each message as a span of its own."""

    def __init__(self, journal: "Replayed", number: int) -> None:
        self.name = journal.names[number]
        self.options = journal.options[number]
        self.next_id = journal.next_ids[number]
        self._kept = [kept for (queue, _), kept in journal.messages.items() if queue == number]

    def spans(self) -> list[Span]:
        return [
            Span(one.payload, one.base, persistent=True, index=range(one.row, one.row + 1), origin=one.origin)
            for one in self._kept
        ]


class Replayed:
    """Ids are used once, so what is there is what was ever put less what was ever removed."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.names: dict[int, str] = {}
        self.options: dict[int, JsonObject] = {}
        self.next_ids: dict[int, int] = {}
        # By queue and id.
        self.put: dict[tuple[int, int], Kept] = {}
        self.removed: set[tuple[int, int]] = set()
        # Durable subscriptions in whose place others of the same name are.
        self.replaced: set[int] = set()
        self.prepared: dict[str, Prepare] = {}
        self.remembered: dict[str, dict[str, None]] = {}
        self.last_queue = 0
        self.lsn = 0
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        self.lsn += 1
        self._apply(record)

    @property
    def messages(self) -> dict[tuple[int, int], Kept]:
        """What is on the queues, in the order of their ids."""
        return {key: self.put[key] for key in sorted(self.put) if key not in self.removed and key[0] in self.names}

    def bodies(self, name: str) -> list[bytes]:
        (number,) = [number for number, one in self.names.items() if one == name]
        return [kept.body for (queue, _), kept in self.messages.items() if queue == number]

    @property
    def queues(self) -> dict[int, "KeptQueue"]:
        return {number: KeptQueue(self, number) for number in self.names}

    def restore(self, core: Core) -> None:
        """As a broker does at its start."""
        restore(core, self)

    def _apply(self, record: Record) -> None:
        if isinstance(record, Declare):
            self._replace(record)
            self.names[record.queue], self.options[record.queue] = record.name, record.options
            self.next_ids[record.queue] = max(self.next_ids.get(record.queue, 1), record.next_id)
            self.last_queue = max(self.last_queue, record.queue)
        elif isinstance(record, Forget):
            assert record.queue in self.names or record.queue in self.replaced, "an unknown queue is forgotten"
            self.names.pop(record.queue, None)
        elif isinstance(record, Put):
            self._put(record)
        elif isinstance(record, Remove):
            self._remove(record)
        elif isinstance(record, Commit):
            self._all(record)
        elif isinstance(record, Prepare):
            self.prepared[record.xid] = record
            for put in record.puts:
                self._use_ids(put)
        elif isinstance(record, Decide):
            prepared = self.prepared.pop(record.xid)
            if record.commit:
                self._all(prepared)
        elif isinstance(record, Remember):
            self.remembered.setdefault(record.destination, {}).update(dict.fromkeys(record.ids))

    def _replace(self, declared: Declare) -> None:
        """A durable subscription takes the place of one of the same name."""
        for number, name in [*self.names.items()]:
            if name == declared.name and declared.options and self.options[number] and number != declared.queue:
                del self.names[number]
                self.replaced.add(number)

    def _all(self, record: Commit | Prepare) -> None:
        for put in record.puts:
            self._put(put)
        for remove in record.removes:
            self._remove(remove)

    def _put(self, put: Put) -> None:
        self._use_ids(put)
        for number, first in put.targets:
            for row in range(put.payload.rows):
                kept = Kept(put.payload, row, first, put.origin)
                before = self.put.setdefault((number, first + row), kept)
                assert before.body == kept.body, "an id is used for two messages"
        destination = put.origin or f"queue:{self.names.get(put.targets[0][0], '')}"
        ids = dict.fromkeys(one for one in ids_of(put.payload) or () if one is not None)
        if ids:
            self.remembered.setdefault(destination, {}).update(ids)

    def _use_ids(self, put: Put) -> None:
        for number, first in put.targets:
            # A file that is gone may have said what the queue is called; a forgotten one has no name for ever.
            self.next_ids[number] = max(self.next_ids.get(number, 1), first + put.payload.rows)

    def _remove(self, remove: Remove) -> None:
        for first, rows in remove.ranges:
            for one in range(first, first + rows):
                assert (remove.queue, one) in self.put, "removed, and never put"
                assert (remove.queue, one) not in self.removed, "removed twice"
                self.removed.add((remove.queue, one))
