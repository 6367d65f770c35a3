"""Small single messages in a journal: put together, and still each of them what it was."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from broker.store.journal_state import ids_of
from mqlab.broker.core.durability.records import Declare, Forget, Put, Record, Remove
from mqlab.broker.core.model.messages import Span
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import DamagedJournalError, RecoveredState, recover
from mqlab.broker.store.segments import segment_path
from mqlab.wire.native.bodies import SINGLE, Payload, decode
from mqlab.wire.native.bodies import encode as encode_bodies


def single(body: bytes) -> Payload:
    return Payload(body, 1, SINGLE)


def journal(folder: Path, *files: list[Record]) -> None:
    """Queues 1 and 2 are known from the start; every record says that the one before it is durable."""
    lsn = 0
    for number, records in enumerate(files, 1):
        data = encode_file_header(number, lsn + 1, [Declare(1, "one", 1), Declare(2, "two", 1)], [], 2)
        for record in records:
            lsn += 1
            data += encode(record, lsn, lsn - 1)
        segment_path(folder, number).write_bytes(data)


def held(found: RecoveredState, queue: int = 1) -> dict[int, bytes]:
    spans = found.queues[queue].spans()
    assert all(one.last_id < other.first_id for one, other in pairwise(spans))
    return {id_: body for span in spans for id_, body in zip(ids_of(span), bodies(span), strict=True)}


def bodies(span: Span) -> list[bytes]:
    return decode(span.encoded()).tolist()


@pytest.mark.parametrize("keep", [10**9, 0])
@pytest.mark.parametrize("seed", range(4))
def test_live_messages_agree_with_a_dictionary(tmp_path: Path, seed: int, keep: int) -> None:
    """Two queues, bodies of many sizes, batches among them, removes of all kinds, over several files."""
    chance = random.Random(seed)
    left: dict[int, dict[int, bytes]] = {1: {}, 2: {}}
    next_ids = {1: 1, 2: 1}
    files: list[list[Record]] = []
    for _ in range(3):
        records: list[Record] = []
        for _ in range(1500):
            queue = chance.choice((1, 2))
            there = [*left[queue]]
            if there and chance.random() < 0.4:
                first = chance.choice(there[:50])
                rows = chance.choice((1, 1, 1, 3))
                gone = [one for one in range(first, first + rows) if left[queue].pop(one, None) is not None]
                records.append(Remove(queue, tuple((one, 1) for one in gone)))
                continue
            new = [chance.randbytes(12 if queue == 1 else chance.choice((0, 5, 255, 256, 257))) for _ in range(3)]
            new = new if chance.random() < 0.02 else new[:1]
            records.append(Put(((queue, next_ids[queue]),), encode_bodies(new)))
            left[queue].update(enumerate(new, next_ids[queue]))
            next_ids[queue] += len(new)
        files.append(records)
    journal(tmp_path, *files)
    found = recover(tmp_path, Files(), keep)
    assert {queue: held(found, queue) for queue in (1, 2)} == left
    assert {queue: found.queues[queue].next_id for queue in (1, 2)} == next_ids


def test_many_are_one_batch(tmp_path: Path) -> None:
    journal(tmp_path, [Put(((1, one),), single(b"%012d" % one)) for one in range(1, 1001)])
    spans = recover(tmp_path, Files(), 10**9).queues[1].spans()
    assert [span.payload.rows for span in spans] == [256, 256, 256, 232]
    assert [body for span in spans for body in bodies(span)] == [b"%012d" % one for one in range(1, 1001)]


def test_a_few_consumed_between_them_stay_in_the_batch_and_many_do_not(tmp_path: Path) -> None:
    puts: list[Record] = [Put(((1, one),), single(b"%d" % one)) for one in range(1, 101)]
    journal(tmp_path, [*puts, Remove(1, ((10, 3),)), Remove(1, ((50, 4),)), Remove(1, ((70, 31),))])
    spans = recover(tmp_path, Files(), 10**9).queues[1].spans()
    assert [(span.payload.rows, span.ranges()) for span in spans] == [
        (49, [(1, 9), (13, 37)]), (16, [(54, 16)]),
    ]  # fmt: skip


def test_one_that_was_carried_forward_comes_back_once_and_from_the_newest_file(tmp_path: Path) -> None:
    puts: list[Record] = [Put(((1, one),), single(b"%d" % one)) for one in range(1, 9)]
    journal(tmp_path, puts, [*puts[2:4], *puts[2:4], Remove(1, ((1, 1),))])
    found = recover(tmp_path, Files(), 10**9)
    assert held(found) == {one: b"%d" % one for one in range(2, 9)}
    assert (found.segments.begin_checkpoint(1)[0], found.segments.begin_checkpoint(2)[0]) == (
        {1: [(2, 3), (5, 9)]}, {1: [(3, 5)]},
    )  # fmt: skip


def test_messages_of_a_deleted_queue_are_dropped_and_their_ids_are_not_missed(tmp_path: Path) -> None:
    journal(tmp_path, [Put(((2, 1),), single(b"x")), Declare(3, "new", 1), Put(((3, 1),), single(b"y")), Forget(2)])
    found = recover(tmp_path, Files(), 10**9)
    assert sorted(found.queues) == [1, 3]
    assert held(found, 3) == {1: b"y"}


@pytest.mark.parametrize("at", [0, 700, 1999])
def test_damage_to_any_of_them_is_found(tmp_path: Path, at: int) -> None:
    journal(tmp_path, [Put(((1, one),), single(b"%012d" % one)) for one in range(1, 2001)], [Forget(2)])
    path = segment_path(tmp_path, 1)
    data = bytearray(path.read_bytes())
    begin = data.index(b"%012d" % (at + 1))
    data[begin + 11] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedJournalError, match=f"record {at + 1} was on disk"):
        recover(tmp_path, Files(), 10**9)


@pytest.mark.parametrize("lost", [1, 12, 40, 64, 65])
def test_a_torn_tail_is_cut_off(tmp_path: Path, lost: int) -> None:
    records: list[Record] = [Put(((1, one),), single(b"%012d" % one)) for one in range(1, 2001)]
    journal(tmp_path, records)
    path = segment_path(tmp_path, 1)
    data = path.read_bytes()
    path.write_bytes(data[:-lost])
    found = recover(tmp_path, Files(), 10**9)
    whole = 2000 - -(-lost // 64)
    assert (found.lsn, len(held(found)), path.stat().st_size) == (whole, whole, len(data) - 64 * (2000 - whole))
