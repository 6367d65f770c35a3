"""Core and journal under a schedule: a random workload in which syncs begin, end and fail when the seed says so."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mqlab.broker.core.broker import Core
from mqlab.broker.core.effects import Append, Committed, Confirm
from mqlab.broker.core.links import Consumer, Producer, Session
from mqlab.broker.core.records import Commit, Declare, Put, Record, Remove
from mqlab.broker.settings import Settings
from mqlab.broker.store import journal as journal_module
from mqlab.broker.store.journal import Journal
from mqlab.broker.store.recovery import Recovered, recover
from mqlab.wire.bodies import decode, encode

from .disk import Call, RecordedFiles

QUEUES = ("a", "b", "c")
# Queue name -> message id -> body.
Live = dict[str, dict[int, bytes]]


class Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1.0

    def perf_counter(self) -> float:
        return self.now


@dataclass(eq=False)
class Sync:
    """Handed to the workers; several may be under way."""

    work: Callable[[], None]
    done: Callable[[BaseException | None], None]
    is_worked: bool = False
    error: BaseException | None = None


class Machine:
    """A broker without sockets. It is the journal's host; what the host must do later is done by `step`."""

    def __init__(self, folder: Path, files: RecordedFiles, *, segment_size: int = 800, seed: int = 0) -> None:
        settings = Settings(data=folder)
        # Far below what a person may choose: many files from a few kilobytes.
        object.__setattr__(settings, "segment_size", segment_size)
        self.chance = random.Random(seed)
        self.files = files
        self.core = Core(settings)
        self.recovered = recover(folder, files)
        for number, queue in self.recovered.queues.items():
            self.core.restore_queue(queue.name, number, queue.next_id, queue.spans())
        self.core.lsn = self.recovered.lsn
        self.records: list[tuple[int, Record]] = []
        self.durable = self.recovered.lsn
        self.failures: list[BaseException] = []
        self.confirmations = 0
        self.syncs_begun = 0
        self._syncs: list[Sync] = []
        self._timers: list[Callable[[], None]] = []
        self.journal = Journal(settings, folder, files, self, self.recovered.segments)
        self.journal.start(self.recovered.next_file, self.recovered.lsn)
        self._numbers = 0
        self._open_links()

    # The journal's host

    def sync_in(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        self.syncs_begun += 1
        self._syncs.append(Sync(work, done))

    def later(self, seconds: float, action: Callable[[], None]) -> None:  # noqa: ARG002 - the seed decides when
        self._timers.append(action)

    def on_durable(self, lsn: int) -> None:
        assert not self.failures, "durable after a failure"
        self.durable = max(self.durable, lsn)
        self.files.log.append(Call("note", note=("durable", lsn)))
        self.core.durable(lsn)
        self.carry_out()

    def on_failure(self, error: BaseException) -> None:
        self.failures.append(error)

    def declarations(self) -> Iterable[Declare]:
        return self.core.declarations()

    def carry_out(self) -> None:
        effects = [*self.core.effects]
        self.core.effects.clear()
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append((effect.lsn, effect.record))
                self.files.log.append(Call("note", note=("record", effect.lsn, effect.record)))
                self.journal.append(effect.record, effect.lsn, effect.waiter)
            elif isinstance(effect, Confirm | Committed):
                self.confirmations += 1

    # The workload

    def _open_links(self) -> None:
        plain, self._transacted = Session(self, 1, False), Session(self, 2, True)
        self._producers = [self.core.open_producer(plain, n, f"queue:{name}") for n, name in enumerate(QUEUES)]
        self._in_transaction = [
            self.core.open_producer(self._transacted, 10 + n, f"queue:{name}") for n, name in enumerate(QUEUES)
        ]
        self._consumers = [self.core.open_consumer(plain, 20 + n, f"queue:{name}", 6) for n, name in enumerate(QUEUES)]
        self._consumers.append(self.core.open_consumer(self._transacted, 30, "queue:a", 4))
        self.carry_out()

    def step(self) -> None:
        """One thing that may happen next."""
        what = self.chance.choices(
            (self._send, self._send_in_transaction, self._acknowledge, self._commit, self._rollback, self.journal.flush,
             self._do_work, self._end_work, self._ring),
            (5, 3, 10, 4, 0.3, 6, 12, 14, 5),
        )[0]  # fmt: skip
        self._let_time_pass()
        what()
        self.carry_out()

    def _let_time_pass(self) -> None:
        clock = journal_module.time
        assert isinstance(clock, Clock)
        clock.now += self.chance.choice((0.0, 0.0, 0.0001, 0.0006))

    def _bodies(self) -> list[bytes]:
        rows = self.chance.choice((1, 1, 2, 5))
        self._numbers += rows
        fill = b"." * self.chance.choice((0, 10, 90))
        return [b"%d " % (self._numbers - rows + row) + fill for row in range(rows)]

    def _send(self) -> None:
        self._send_by(self.chance.choice(self._producers), confirm=True)

    def _send_in_transaction(self) -> None:
        self._send_by(self.chance.choice(self._in_transaction), confirm=False)

    def _send_by(self, producer: Producer, *, confirm: bool) -> None:
        if producer.spent < self.core.settings.producer_window:
            persistent = self.chance.random() < 0.9
            self.core.send(producer, encode(self._bodies()), self._numbers, persistent=persistent, confirm=confirm)

    def _acknowledge(self) -> None:
        consumer: Consumer = self.chance.choice(self._consumers)
        if consumer.unacknowledged:
            first, span = consumer.unacknowledged[0]
            rows = self.chance.randint(1, span.rows)
            self.core.acknowledge(consumer, first + rows - 1, rows)

    def _commit(self) -> None:
        self.core.commit(self._transacted)

    def _rollback(self) -> None:
        self.core.rollback(self._transacted)
        self.core.acknowledge(self._consumers[-1], 0, 4)

    def _do_work(self) -> None:
        """A worker's thread waits for the disk, which may serve them in any order."""
        waiting = [sync for sync in self._syncs if not sync.is_worked]
        if waiting:
            sync = self.chance.choice(waiting)
            sync.is_worked = True
            try:
                sync.work()
            except OSError as error:
                sync.error = error

    def _end_work(self) -> None:
        """... and the loop hears of it."""
        worked = [sync for sync in self._syncs if sync.is_worked]
        if worked:
            sync = self.chance.choice(worked)
            self._syncs.remove(sync)
            sync.done(sync.error)

    def _ring(self) -> None:
        if self._timers:
            self._timers.pop(0)()

    def leave(self) -> None:
        """As a process that ends: its files are closed, whatever is in them."""
        self.files.close_all()

    def finish(self) -> None:
        """Let everything that is under way come to its end."""
        for _ in range(50):
            self._let_time_pass()
            for part in (self.journal.flush, self._do_work, self._end_work, self._ring):
                part()
                self.carry_out()


def live_after(records: Iterable[tuple[int, Record]], lsn: int) -> Live:
    """Which persistent messages there are after record `lsn`: the plainest way to say what a journal means."""
    names: dict[int, str] = {}
    live: Live = {}
    for number, record in records:
        if number > lsn:
            break
        if isinstance(record, Declare):
            names[record.queue] = record.name
            live.setdefault(record.name, {})
        for put in _puts(record):
            bodies = decode(put.payload).tolist()
            live[names[put.queue]].update({put.first_id + row: body for row, body in enumerate(bodies)})
        for remove in _removes(record):
            for first, rows in remove.ranges:
                for number_of_message in range(first, first + rows):
                    del live[names[remove.queue]][number_of_message]
    return {name: messages for name, messages in live.items() if messages}


def found_in(recovered: Recovered) -> Live:
    live: Live = {}
    for queue in recovered.queues.values():
        messages: dict[int, bytes] = {}
        for span in queue.spans():
            for row, body in enumerate(decode(span.encoded()).tolist()):
                assert span.first_id + row not in messages
                messages[span.first_id + row] = body
        assert max(messages, default=0) < queue.next_id
        if messages:
            live[queue.name] = messages
    return live


def _puts(record: Record) -> Iterator[Put]:
    yield from record.puts if isinstance(record, Commit) else (record,) if isinstance(record, Put) else ()


def _removes(record: Record) -> Iterator[Remove]:
    yield from record.removes if isinstance(record, Commit) else (record,) if isinstance(record, Remove) else ()
