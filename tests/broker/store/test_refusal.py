"""A disk with too little space for some record: it is refused, everything else goes on, and nothing waits behind it."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.broker.core.durability.pending_records import journal_bytes, merged
from mqlab.broker.core.durability.records import Commit, Decide, Prepare, Put, Record, Remove
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.broker.store.files.layer import Files
from mqlab.broker.store.recovery.recovery import recover
from mqlab.client import connect
from mqlab.client.errors import MessagingError
from mqlab.wire.native.bodies import encode

from .disk import RecordedFiles
from .machine import Machine, small_settings
from .small_core import Message
from .test_full_disk import small_disk as small_disk

SEEDS = range(120 if os.environ.get("MQLAB_TORTURE") else 12)
CAPACITY, SEGMENT = 40_000, 8_000
KINDS = ("put", "commit", "prepare")
SIZES = (1, 200, 1_000, 3_000, 7_000, 9_000, 15_000, 30_000, 39_000, 80_000)
MIB = 1 << 20


class Driver:
    """Appends messages of any size in records of any kind, as a core does: after it has asked for room."""

    def __init__(self, folder: Path, capacity: int, *, preallocate: bool = True) -> None:
        settings = small_settings(folder, segment_size=SEGMENT, log_length=1 << 30)
        object.__setattr__(settings, "preallocate", preallocate)
        self.machine = Machine(folder, RecordedFiles(capacity), settings=settings)
        self.core = self.machine.core
        self.queue = self.core.queues[1]
        self._folder = folder
        self._xids = 0

    def send(self, kind: str, size: int) -> bool:
        """Whether there was room for it. Whatever was taken is durable: nothing waits for room."""
        queue, body = self.queue, b"." * size
        put = Put(((1, queue.next_id),), encode([body]))
        if self.core.lacks_room(journal_bytes(put)):
            return False
        queue.live[queue.next_id] = Message(body)
        queue.next_id += 1
        self._xids += 1
        record: Record = put
        if kind == "commit":
            record = Commit((put,), ())
        elif kind == "prepare":
            record = Prepare(f"xid {self._xids}", (put,), ())
        self.core.emit(record, True)
        if isinstance(record, Prepare):
            self.core.emit(Decide(record.xid, True), True)
        self.settle()
        return True

    def send_in_the_end(self, kind: str, size: int) -> bool:
        """What was consumed makes room when it is durable, which a refusal hastens."""
        for _ in range(4):
            if self.send(kind, size):
                return True
            self.settle()
        return False

    def consume(self, rows: int) -> None:
        """As the core does while the disk is full: neighbours share a record."""
        ids = [*self.queue.live][:rows]
        for one in ids:
            del self.queue.live[one]
        self.core.emit(Remove(1, merged((one, 1) for one in ids)), False)
        self.settle()

    def settle(self) -> None:
        self.machine.finish()
        assert self.machine.failures == []
        assert self.machine.unconfirmed == [], "somebody waits behind a record that does not fit"

    def ids_after_a_kill(self) -> list[int]:
        found = recover(self._folder, Files(), 0)
        ranges = [one for span in found.queues[1].spans() for one in span.ranges()]
        return [one for first, rows in ranges for one in range(first, first + rows)]


def test_a_commit_that_does_not_fit_is_refused_and_all_else_goes_on(tmp_path: Path) -> None:
    driver = Driver(tmp_path, CAPACITY)
    while sum(len(one.body) for one in driver.queue.live.values()) < 0.55 * CAPACITY:
        assert driver.send("put", 1_000)
    assert not driver.send("commit", int(0.6 * CAPACITY))
    # The disk is not full: what fits is taken.
    assert driver.machine.full == []
    assert driver.send("put", 1_000)
    driver.consume(len(driver.queue.live))
    assert driver.send_in_the_end("commit", int(0.6 * CAPACITY))
    assert driver.ids_after_a_kill() == [*driver.queue.live]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disk_that_is_filled_by_any_record_can_be_emptied_again(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(seed)
    driver = Driver(tmp_path, CAPACITY + 500 * seed, preallocate=seed % 4 != 3)
    refused = 0
    for _ in range(3):
        # Fill it with records of any kind, until none of any size is taken any more.
        for size in chance.sample(SIZES, len(SIZES)) + sorted(SIZES, reverse=True):
            kind = chance.choice(KINDS)
            while driver.send(kind, size):
                kind = chance.choice(KINDS)
            refused += 1
            if chance.random() < 0.3:
                driver.consume(chance.randint(1, 5))
        assert not driver.send(chance.choice(KINDS), 80_000)
        # What was acknowledged on the full disk stays so, whatever becomes of the process.
        driver.consume(len(driver.queue.live) // 2)
        assert driver.ids_after_a_kill() == [*driver.queue.live]
        driver.consume(len(driver.queue.live))
        assert driver.send_in_the_end(chance.choice(KINDS), 15_000), "all was consumed, and there is no room"
    record_property("refused", refused)
    driver.machine.leave()
    driver.machine.files.capacity = None
    assert driver.ids_after_a_kill() == [*driver.queue.live]


def test_a_broker_on_a_real_disk_refuses_a_commit_without_room_and_goes_on(small_disk: Path) -> None:
    """As an application sees it; the disk has 4 MiB."""
    settings = Settings(name="small-disk", listen=(), data=small_disk / "data", segment_size=MIB, log_length=MIB)
    body = b"." * 100_000
    with LocalBroker.in_thread(settings) as broker, connect(f"bindings:{broker.name}") as connection:
        plain, transacted = connection.session(), connection.session(acknowledge="transacted")
        producer, other = plain.producer("queue:orders"), transacted.producer("queue:orders")
        for _ in range(15):
            producer.send(body, persistent=True)
        for _ in range(32):
            other.send(body, persistent=True)
        with pytest.raises(MessagingError, match="no space for 32"):
            transacted.commit()
        transacted.rollback()
        # Others, and the same session, go on.
        producer.send(body, persistent=True)
        other.send(body, persistent=True)
        transacted.commit()
        consumer = plain.consumer("queue:orders")
        for _ in range(16):
            consumer.receive(timeout=240)
        consumer.close()
    with LocalBroker.in_thread(settings) as broker, connect(f"bindings:{broker.name}") as connection:
        consumer = connection.session().consumer("queue:orders")
        consumer.receive(timeout=240)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=0.2)
