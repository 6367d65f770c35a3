"""What recovery gives back: spans in the order of their ids, each message once, and no more memory than allowed."""

import os
import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from broker.store.disk import RecordedFiles
from broker.store.journal_state import ids_of
from broker.store.journals import recovered, written
from broker.store.machine import Machine
from mqlab.broker.core.durability.records import Commit, Decide, Declare, Forget, Prepare, Put, Record, Remember, Remove
from mqlab.broker.store.encoding import encode, encode_file_header
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.journal_format import MAGIC
from mqlab.broker.store.payloads.page_files import StoredPayloadError
from mqlab.broker.store.recovery.live_ranges import LiveRange, remaining_ranges
from mqlab.broker.store.recovery.recovery import DamagedJournalError, RecoveredState, recover
from mqlab.broker.store.segments import segment_numbers, segment_path
from mqlab.wire.native.bodies import SINGLE, Payload, decode
from mqlab.wire.native.bodies import encode as encode_bodies
from mqlab.wire.native.columns import decode_batch, encode_columns, encode_single
from process_helpers import descriptors_below

KIB, MIB = 1024, 1024 * 1024


def single(body: bytes) -> Payload:
    return Payload(body, 1, SINGLE)


def each_id(found: RecoveredState, queue: int = 1) -> list[int]:
    return [one for first, rows in ids(found, queue) for one in range(first, first + rows)]


def ids(found: RecoveredState, queue: int = 1) -> list[tuple[int, int]]:
    return [one for span in found.queues[queue].spans() for one in span.ranges()]


def test_a_durable_subscription_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    """Also where the journal ends before it forgets the former one."""
    topic, other = {"topic": "t"}, {"topic": "other"}
    records: list[Record] = [
        Declare(12, "d", 1, topic), Declare(13, "d", 1), Declare(14, "e", 1, topic),
        Put(((12, 1), (13, 1)), single(b"x")), Declare(15, "d", 1, other), Remove(12, ((1, 1),)), Forget(12),
    ]  # fmt: skip
    for end in range(5, len(records) + 1):
        found, _ = recovered(tmp_path, {1: written(records[:end]).data})
        assert {number: (queue.name, queue.options) for number, queue in found.queues.items() if number > 10} == {
            13: ("d", {}), 14: ("e", topic), 15: ("d", other),
        }  # fmt: skip
        assert each_id(found, 13) == [1]
        assert each_id(found, 15) == []


def test_a_message_that_was_carried_forward_comes_back_once(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(1, 11)]
    records: list[Record] = [
        Put(((1, 1),), encode_bodies(bodies)),
        Remove(1, ((4, 1),)),
        # A crash came before the rest of them was written.
        Put(((1, 2),), encode_bodies(bodies[1:3])),
        Put(((1, 5),), encode_bodies(bodies[4:6])),
        # And again, by the next broker.
        Put(((1, 3),), encode_bodies(bodies[2:3])),
        Remove(1, ((6, 2),)),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    assert ids(found) == [(1, 1), (2, 1), (3, 1), (5, 1), (8, 3)]
    assert len(found.queues[1].spans()) == 5
    held = [body for span in found.queues[1].spans() for body in decode(span.encoded()).tolist()]
    assert held == [bodies[number - 1] for number in (1, 2, 3, 5, 8, 9, 10)]


def test_live_messages_agree_with_a_dictionary() -> None:
    """Puts that overlap in any way, the later wins; ranges removed across their borders."""
    chance = random.Random(11)
    for _ in range(300):
        parts, plain = [], {}
        for lsn in range(chance.randrange(8)):
            begin, rows = chance.randrange(1, 30), chance.randrange(1, 12)
            payload = Payload(bytes(rows * 10), rows, 0)
            parts.append(LiveRange(begin, begin + rows, begin, payload, lsn, number=lsn, origin=""))
            plain.update(dict.fromkeys(range(begin, begin + rows), (lsn, begin)))
        removed = [(chance.randrange(1, 40), chance.randrange(1, 9)) for _ in range(chance.randrange(6))]
        gone = {one for first, rows in removed for one in range(first, first + rows)}
        left = remaining_ranges(chance.sample(parts, len(parts)), removed)
        found = {one: (part.lsn, part.base) for part in left for one in range(part.begin, part.end)}
        assert found == {one: where for one, where in plain.items() if one not in gone}
        assert sum(part.rows for part in left) == len(found)
        assert left == sorted(left, key=lambda part: part.begin)


def test_a_put_for_several_queues_is_one_payload(tmp_path: Path) -> None:
    payload = encode_bodies([b"one", b"two"])
    records: list[Record] = [
        Put(((1, 5), (2, 9)), payload, "topic:t"),
        Remove(1, ((5, 1),)),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    (first,), (second,) = found.queues[1].spans(), found.queues[2].spans()
    assert first.payload is second.payload
    assert (first.ranges(), second.ranges()) == ([(6, 1)], [(9, 2)])
    assert first.origin == second.origin == "topic:t"
    assert (found.queues[1].next_id, found.queues[2].next_id) == (7, 11)


def test_prepared_transactions_come_back_as_they_were(tmp_path: Path) -> None:
    waits = Prepare("waits", (Put(((1, 2),), single(b"new")),), (Remove(1, ((1, 1),)),))
    records: list[Record] = [
        Put(((1, 1),), single(b"old")),
        waits,
        Prepare("undone", (Put(((1, 3),), single(b"never")),), (Remove(1, ((1, 1),)),)),
        Prepare("done", (Put(((1, 4), (2, 1)), single(b"both")),), ()),
        Decide("undone", False),
        Decide("done", True),
        Decide("who?", True),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    assert found.prepared == {"waits": waits}
    assert (ids(found), ids(found, 2)) == ([(1, 1), (4, 1)], [(1, 1)])
    # Nothing else may ever have the ids of what is prepared.
    assert found.queues[1].next_id == 5
    # What it removes must stay, and it must stay itself.
    assert found.segments.begin_checkpoint(1) == ({1: [(1, 5)], 2: [(1, 2)]}, ["waits"])


def test_queues_come_back_with_their_options_unless_they_are_deleted(tmp_path: Path) -> None:
    records: list[Record] = [
        Declare(3, "subscription", 7, {"topic": "a.*", "shared": True}),
        Declare(9, "gone", 1),
        Put(((9, 1), (3, 7)), single(b"x"), "topic:a.b"),
        Remove(9, ((1, 1),)),
        Forget(9),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    assert sorted(found.queues) == [1, 2, 3]
    assert found.queues[3].options == {"topic": "a.*", "shared": True}
    assert (found.queues[3].name, found.queues[3].next_id) == ("subscription", 8)
    assert found.last_queue == 9


def named(first: int, *ids: str | None) -> Put:
    bodies = pa.array([b"x"] * len(ids), pa.binary())
    return Put(((1, first),), encode_columns(bodies, {"duplicate_id": pa.array(ids, pa.string())}))


def test_duplicate_ids_are_recovered_in_their_order(tmp_path: Path) -> None:
    records: list[Record] = [
        named(90, None, None),
        named(1, "a", None, "b"),
        Remember("topic:t", ("t",)),
        Commit((named(4, "c"),), (Remove(1, ((1, 3),)),)),
        Prepare("undone", (named(5, "d"),), ()),
        Prepare("waits", (named(6, "e"),), ()),
        # Carried forward: it is no newer for that.
        named(2, None, "b"),
        Decide("undone", False),
        Put(((1, 7), (2, 1)), named(1, "f").payload, "topic:t"),
        Remember("queue:orders", ("g",)),
    ]
    found, _ = recovered(tmp_path, {1: written(records).data})
    assert found.remembered == {
        "queue:orders": ["an id", "another", "a", "b", "c", "e", "g"], "topic:t": ["t", "f"],
    }  # fmt: skip


def test_duplicate_ids_of_a_deleted_queue_are_dropped(tmp_path: Path) -> None:
    """Only those of a queue: a subscription has its name from elsewhere."""
    subscribed = Declare(3, "sub", 1, {"topic": "t"})
    records: list[Record] = [named(1, "a"), subscribed, Remember("queue:sub", ("b",)), Forget(3), Forget(1)]
    found, _ = recovered(tmp_path, {1: written(records).data})
    assert found.remembered == {"queue:sub": ["b"]}


def test_a_file_header_has_all_duplicate_ids_of_the_files_before_it(tmp_path: Path) -> None:
    first = written([named(1, "forgotten since")])
    second = encode_file_header(2, 2, [Declare(1, "orders", 2)], [Remember("queue:orders", ("known",))], 1)
    second += encode(named(2, "new"), 2, 1)
    found, _ = recovered(tmp_path, {1: first.data, 2: second})
    assert found.remembered == {"queue:orders": ["known", "new"]}


def journal_of(folder: Path, count: int, size: int, *, files: int = 4) -> list[bytes]:
    """Messages on one queue, in several files."""
    bodies, lsn = [], 0
    for number in range(1, files + 1):
        data = bytearray(encode_file_header(number, lsn + 1, [Declare(1, "orders", lsn + 1)], [], 1))
        for _ in range(count // files):
            lsn += 1
            bodies.append(b"%08d" % lsn + os.urandom(8) * (size // 8))
            data += encode(Put(((1, lsn),), single(bodies[-1])), lsn, lsn - 1)
        segment_path(folder, number).write_bytes(data)
    return bodies


def test_memory_is_bounded_and_what_is_left_on_disk_is_loaded(tmp_path: Path) -> None:
    bodies = journal_of(tmp_path, 800, 40 * KIB)
    largest = max(path.stat().st_size for path in tmp_path.iterdir())
    keep = 4 * MIB
    tracemalloc.start()
    found = recover(tmp_path, Files(), keep)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < keep + 2 * MIB
    assert peak < keep + largest + 4 * MIB
    spans = found.queues[1].spans()
    # The oldest are in memory: they are delivered first.
    in_memory = [isinstance(span.payload, Payload) for span in spans]
    assert in_memory == sorted(in_memory, reverse=True)
    assert sum(span.size for span in spans if isinstance(span.payload, Payload)) > 0.9 * keep
    assert [span.whole().data for span in spans] == bodies


def test_what_was_consumed_takes_no_memory(tmp_path: Path) -> None:
    """So that the rest has it: the journal may be much longer than what is left of it."""
    journal_of(tmp_path, 400, 20 * KIB)
    lsn, first_id = 400, 1
    for number in range(5, 9):
        data = bytearray(encode_file_header(number, lsn + 1, [Declare(1, "orders", 401)], [], 1))
        for _ in range(95):
            lsn += 1
            data += encode(Remove(1, ((first_id, 1),)), lsn, lsn - 1)
            first_id += 1
        segment_path(tmp_path, number).write_bytes(data)
    tracemalloc.start()
    found = recover(tmp_path, Files(), MIB)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < MIB
    assert each_id(found) == [*range(381, 401)]


def test_single_messages_on_disk_take_little_memory(tmp_path: Path) -> None:
    """One stand-in for many of them; what is consumed in the midst of them is gone all the same."""
    bodies = journal_of(tmp_path, 20_000, 32)
    data = encode_file_header(5, 20_001, [Declare(1, "orders", 20_001)], [], 1) + encode(
        Remove(1, ((1, 1), (700, 50), (10_000, 1))), 20_001, 0
    )
    segment_path(tmp_path, 5).write_bytes(data)
    tracemalloc.start()
    found = recover(tmp_path, Files(), 100 * KIB)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100 * KIB + 20_000 * 40
    left = [one for one in range(2, 20_001) if not 700 <= one < 750 and one != 10_000]
    assert each_id(found) == left
    spans = found.queues[1].spans()
    assert [body for span in spans for body in decode(span.encoded()).tolist()] == [bodies[one - 1] for one in left]


def test_single_messages_on_disk_keep_their_headers_and_origins(tmp_path: Path) -> None:
    """Only those that are alike share a stand-in."""

    def payload(number: int, *names: str) -> Payload:
        values = [f"{name} {number}" for name in names]
        return encode_single(b"body %d" % number, names, "s" * len(names), values)

    kinds = [(), ("correlation_id",), ("correlation_id", "reply_to")]
    records: list[Record] = []
    for number in range(1, 61):
        names = kinds[number // 7 % 3]
        several = number // 10 % 2
        targets = ((1, number), (2, 100 + number)) if several else ((1, number),)
        records += [Put(targets, payload(number, *names), "topic:t" if several else ""), Remember("topic:t", ("x",))]
    records.append(Remove(2, ((112, 2),)))
    journal = written(records)
    segment_path(tmp_path, 1).write_bytes(journal.data)
    found = recover(tmp_path, Files(), 0)
    for queue, first in ((1, 1), (2, 101)):
        seen = []
        for span in found.queues[queue].spans():
            assert span.payload.rows < 12
            batch = decode_batch(span.encoded())
            for row, one in enumerate(ids_of(span)):
                number = one - first + 1
                seen.append(number)
                assert span.origin == ("topic:t" if number // 10 % 2 else "")
                names = kinds[number // 7 % 3]
                wanted = {"body": b"body %d" % number} | {name: f"{name} {number}" for name in names}
                assert {name: batch.column(name)[row].as_py() for name in batch.schema.names} == wanted
        whole = [one for one in range(1, 61) if queue == 1 or (one // 10 % 2 and one not in (12, 13))]
        assert seen == whole


def test_a_damaged_message_among_others_on_disk_is_an_error(tmp_path: Path) -> None:
    journal_of(tmp_path, 40, 100)
    found = recover(tmp_path, Files(), 0)
    path = segment_path(tmp_path, 1)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoredPayloadError, match=path.name):
        found.queues[1].spans()[0].whole()


def test_a_consumer_of_one_message_at_a_time_does_not_read_all_of_them_each_time(tmp_path: Path) -> None:
    journal_of(tmp_path, 400, 100)
    files = CountingFiles()
    found = recover(tmp_path, files, 0)
    taken = 0
    for span in found.queues[1].spans():
        while span.rows > 1:
            span.take_first(1).encoded()
            taken += 1
    assert taken > 380
    assert files.reads == 400


class CountingFiles(Files):
    reads = 0

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        self.reads += 1
        return super().read_at(file, size, offset)


def test_a_payload_left_on_disk_that_changes_later_is_an_error(tmp_path: Path) -> None:
    journal_of(tmp_path, 8, 40 * KIB)
    found = recover(tmp_path, Files(), 0)
    path = segment_path(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    *_, last = [span for span in found.queues[1].spans() if span.first_id <= 4]
    with pytest.raises(StoredPayloadError, match=path.name):
        last.whole()


def test_a_payload_left_on_disk_can_be_read_when_its_file_is_gone(tmp_path: Path) -> None:
    """Its message was carried forward or consumed, yet somebody still holds it."""
    journal_of(tmp_path, 8, 40 * KIB)
    files = RecordedFiles()
    machine = Machine(tmp_path, files)
    spans = machine.recovered.queues[1].spans()
    machine.core.emit(Remove(1, ((1, 4),)), True)
    machine.finish()
    machine.core.emit(Put(((1, 9),), single(b"wakes the journal")), True)
    machine.finish()
    assert segment_numbers(tmp_path)[0] == 3
    descriptors = descriptors_below(tmp_path)
    assert spans[0].whole().data[:8] == b"00000001"
    assert spans[3].whole().data[:8] == b"00000004"
    del spans
    machine.recovered.queues.clear()
    assert descriptors_below(tmp_path) < descriptors


def test_another_version_of_the_format_is_refused_and_left(tmp_path: Path) -> None:
    old = encode_file_header(1, 1, [], [], 0).replace(MAGIC, b"mqlabJ01")
    segment_path(tmp_path, 1).write_bytes(old)
    with pytest.raises(DamagedJournalError, match="another version of the broker wrote the file: mqlabJ01"):
        recover(tmp_path, Files(), 0)
    assert segment_path(tmp_path, 1).read_bytes() == old


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    segment_path(tmp_path, 1).mkdir()
    with pytest.raises(DamagedJournalError, match="cannot be read"):
        recover(tmp_path, Files(), 0)


def test_space_that_a_killed_broker_had_reserved_is_given_back(tmp_path: Path) -> None:
    journal_of(tmp_path, 8, 100)
    path = segment_path(tmp_path, 4)
    size = path.stat().st_size
    file = os.open(path, os.O_WRONLY)
    Files().reserve(file, 4 * MIB)
    os.close(file)
    if path.stat().st_blocks * 512 < 4 * MIB:
        pytest.skip("this file system reserves no space")
    recover(tmp_path, Files(), 0)
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 < MIB
