"""Journals in memory, and recovery from them: for tests that damage one in thousands of ways."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mqlab.broker.core.durability.records import (
    Commit,
    Decide,
    Declare,
    Forget,
    Prepare,
    Put,
    Record,
    Remember,
    Remove,
    Shut,
)
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import RecoveredState, recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import encode as encode_bodies

DECLARED = [Declare(1, "orders", 1), Declare(2, "prices.eu", 1)]
REMEMBERED = [Remember("queue:orders", ("an id", "another"))]


class MemoryFiles(Files):
    """Contents come from memory; only the names are in the folder."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.changes: list[tuple[str, str, int]] = []

    def read(self, path: Path) -> bytes:
        return self.contents[path.name]

    def truncate(self, path: Path, size: int) -> None:
        self.changes.append(("truncate", path.name, size))

    def remove(self, path: Path) -> None:
        self.changes.append(("remove", path.name, 0))

    def trim(self, path: Path, size: int) -> None: ...

    def sync_path(self, path: Path) -> None: ...

    def sync_folder(self, path: Path) -> None: ...


@dataclass
class Written:
    """One journal file: its bytes, and where each record begins, with its number and what it says of durability."""

    data: bytes
    head_size: int
    # (begin, lsn, durable, record)
    records: list[tuple[int, int, int, Record]]

    def until(self, size: int) -> list[tuple[int, Record]]:
        """The complete records in the first `size` bytes."""
        ends = [*(begin for begin, *_ in self.records[1:]), len(self.data)]
        return [(lsn, record) for (_, lsn, _, record), end in zip(self.records, ends, strict=True) if end <= size]

    def at(self, byte: int) -> tuple[int, int]:
        """The number of the record at this byte (0: the header), and the last that later records prove durable."""
        lsn = max((lsn for begin, lsn, _, _ in self.records if begin <= byte), default=0)
        proven = max((durable for _, number, durable, _ in self.records if number > lsn), default=0)
        return lsn, proven


def workload(least: int, *, body: int = 900, batch: int = 1) -> list[Record]:
    """Every kind of record: sends of batches and single messages to two queues and to both, acknowledgements of parts,
    transactions in one phase and in two, messages carried forward, and a queue that comes and goes."""
    records: list[Record] = [*DECLARED]
    size, next_id, n = 0, {1: 1, 2: 1}, 0
    while size < least:
        n += 1
        queue = 1 + n % 2
        bodies = [b"%06d" % (n * 100 + row) + b"." * body for row in range(1 if n % 3 else batch)]
        several = n % 7 == 3
        targets = tuple((one, next_id[one]) for one in ((1, 2) if several else (queue,)))
        put = Put(targets, encode_bodies(bodies), "topic:all" if several else "")
        for one, _ in targets:
            next_id[one] += len(bodies)
        records += _steps(n, put, Remove(queue, ((targets[-1][1], (len(bodies) + 1) // 2),)))
        size += len(put.payload.data)
    return records


def _steps(n: int, put: Put, removed: Remove) -> Iterator[Record]:
    (queue, first_id), xid = put.targets[-1], f"xid {n}"
    if n % 4 == 0:
        yield Commit((put,), (Remove(3 - queue, ()),))
    elif n % 4 == 1:
        yield Prepare(xid, (put,), ())
        # One in two is decided, and half of these are rolled back.
        if n % 8 == 1:
            yield Decide(xid, n % 16 == 1)
    else:
        yield put
        if n % 5 == 0:
            yield removed
        elif n % 5 == 1:
            yield Put(((queue, first_id),), put.payload, put.origin)
    if n % 6 == 0:
        yield Declare(100 + n, f"for a while {n}", 1, {"since": n})
        yield Remember("queue:orders", (f"id {n}",))
    if n % 12 == 0:
        yield Forget(100 + n)


def written(
    records: list[Record], *, number: int = 1, first_lsn: int = 1, group: int = 3, shut: bool = False
) -> Written:
    """As a journal would write them if every `group` records were synced together."""
    header = encode_file_header(number, first_lsn, DECLARED, REMEMBERED, 2)
    data, where, durable = bytearray(header), [], first_lsn - 1
    for n, record in enumerate(records):
        lsn = first_lsn + n
        where.append((len(data), lsn, durable, record))
        data += encode(record, lsn, durable)
        if n % group == group - 1:
            durable = lsn
    if shut:
        lsn = first_lsn + len(records)
        where.append((len(data), lsn, lsn - 1, Shut()))
        data += encode(Shut(), lsn, lsn - 1)
    return Written(bytes(data), len(header), where)


def recovered(folder: Path, contents: dict[int, bytes]) -> tuple[RecoveredState, MemoryFiles]:
    for number in contents:
        segment_path(folder, number).touch()
    files = MemoryFiles({segment_path(folder, number).name: data for number, data in contents.items()})
    return recover(folder, files, 1 << 30), files
