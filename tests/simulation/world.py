"""One simulation: brokers that live and crash, clients that live and die, and a disk, all driven by one seed."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

from broker.store.disk import Disk, write_image
from mqlab.broker.store.recovery.recovery import RecoveredState

from .books import Books, Fault
from .clock import STEPS_MS, Clock, in_place
from .files import Crashed, SimulatedFiles
from .final_checks import come_to_rest, drain, nothing_is_left, old_files_go
from .host import SimulatedBroker
from .invariants import nobody_waits_in_vain
from .participants import cast, settings
from .recovery_checks import settle

# Bytes of payloads that recovery keeps in memory: so few that some stay in the journal.
_KEEP_IN_MEMORY = 2000
# Between two looks at whether somebody waits for what is there.
_LOOK_EVERY = 25


class Simulation:
    """`folder` is for its files, and empty."""

    def __init__(self, seed: int, folder: Path, steps: int = 5000) -> None:
        self.seed = seed
        self.steps = steps
        self.chance = random.Random(seed)
        self.clock = Clock()
        self._folder = folder / "journal"
        self._folder.mkdir()
        self.settings = settings(self._folder, self.chance, seed)
        self.books = Books(self.settings)
        self.clients = cast(self.chance, self.books)
        self.disk = Disk({})
        self.capacity = self.chance.choice((None, None, None, self.settings.segment_size * 9))
        # How often something goes wrong: a long life has checkpoints, a short one many crashes.
        self._faults = self.chance.choice((0.1, 0.4, 0.8))
        self.broker: SimulatedBroker
        self._ended_in_order = False
        # What must be there at the least after the crash of a broker that never got to its feet.
        self._durable = self._appended = 0
        self._last_words = 0

    def run(self) -> dict[str, int]:
        """What happened, in numbers. Raises Fault."""
        with in_place(self.clock):
            self._begin_life()
            for number in range(self.steps):
                self._step()
                if number % _LOOK_EVERY == 0 and self.broker.failure is None:
                    nobody_waits_in_vain(self.books)
                    self.books.forget_the_past()
            self._end()
        return self.books.counts

    # Steps

    def _step(self) -> None:
        chance = self.chance
        try:
            what = chance.choices(
                (self._act, self._hear, self.broker.flush, self.broker.do_work, self.broker.end_work, self._wait,
                 self._fault),
                (40, 40, 25, 20, 20, 10, self._faults),
            )[0]  # fmt: skip
            what()
        except Crashed:
            self._crash()
            return
        if self.broker.failure is not None:
            self._stop_after_failure()

    def _act(self) -> None:
        client = self.chance.choice(self.clients)
        if client.broker is None:
            client.connect(self.broker)
        else:
            client.act()

    def _hear(self) -> None:
        listening = [client for client in self.clients if client.inbox]
        if listening:
            self.chance.choice(listening).handle_next()

    def _wait(self) -> None:
        self.broker.let_time_pass(self.chance.choice((0.0, 0.0001, 0.0006, 0.01, 0.3)))

    def _fault(self) -> None:
        what = self.chance.choices(
            ("death", "crash", "crash soon", "failing sync", "failing write", "stop", "clock"),
            (6, 1, 2, 0.7, 0.3, 0.7, 2),
        )[0]
        self.books.count(what)
        self.books.tell(what)
        if what == "death":
            living = [client for client in self.clients if client.broker is not None]
            if living:
                self.chance.choice(living).die()
        elif what == "crash":
            raise Crashed
        elif what == "crash soon":
            self.broker.files.crash_in = self.chance.randrange(12)
        elif what == "failing sync":
            self.broker.files.fail_a_sync_soon()
        elif what == "failing write":
            self.broker.files.fail_an_append_soon()
        elif what == "clock":
            self.clock.set_by(self.chance.choice(STEPS_MS))
        else:
            self._stop()

    # Lives

    def _begin_life(self) -> None:
        """Until a broker is on its feet: it may crash on the way there, too."""
        while True:
            files = SimulatedFiles(self._folder, self.chance, self.capacity)
            if self.chance.random() < 0.2:
                files.crash_in = self.chance.randrange(8)
            self.broker = SimulatedBroker(self.settings, self._folder, files, self.clock, self.books, self.chance)
            try:
                found = self.broker.recover(_KEEP_IN_MEMORY)
                self.books.tell(f"recovery ends at {found.lsn}: {self._durable} to {self._appended}")
                self._check_end(found)
                settle(self.books, found, self.clock)
                self.broker.start(found)
            except Crashed:
                self._leave(settled=False)
                continue
            except OSError:
                # Not even room for the head of a file: somebody must make some.
                self._leave(settled=False)
                self.capacity = (self.capacity or 0) + self.settings.segment_size * 2
                continue
            files.crash_in = None
            self._check_restored()
            return

    def _check_end(self, found: RecoveredState) -> None:
        """The journal ends with a record that is no earlier than the last one that was called durable."""
        if not self._durable <= found.lsn <= self._appended:
            raise Fault(f"{self._durable} was durable, {self._appended} appended, recovery ends at {found.lsn}")
        if self._ended_in_order and (found.torn or found.lsn < self._appended):
            raise Fault(f"stopped in good order after {self._appended}, recovery ends at {found.lsn}")
        # From here on nothing of it may be lost: it was synced.
        self._durable = self._appended = found.lsn
        self._ended_in_order = False

    def _check_restored(self) -> None:
        for number, queue in self.broker.core.destinations.numbered.items():
            there = self.books.places[number].copies.values()
            sure = [copy for copy in there if not copy.unsure and not copy.is_late(self.books.latest)]
            if not len(sure) <= queue.messages <= len(there):
                raise Fault(f"{queue.full_name} has {queue.messages} messages in place of {len(there)}")

    def _crash(self) -> None:
        """The process is gone, or the power is."""
        self.books.count("crashes")
        self._durable = self.books.durable
        self._appended = self.broker.core.records.lsn + self._last_words
        self._last_words = 0
        for client in self.clients:
            # What the broker has said may still arrive.
            if self.chance.random() < 0.5:
                client.inbox.clear()
            client.forget()
        self._leave()
        self._begin_life()

    def _leave(self, *, settled: bool = True) -> None:
        """What is left on disk is what the next broker finds."""
        files = self.broker.files
        files.end()
        for call in files.log:
            self.disk.do(call)
        # Without syncs a power failure may take what was confirmed, and the setting says so.
        if self.chance.random() < 0.6 and self.settings.sync == "on":
            self.books.count("power failures")
            self.disk = Disk(self.chance.choice([*self.disk.after_power_failure(self.chance)]))
        write_image(self._folder, self.disk.after_kill())
        if not settled:
            self.books.count("crashes at start")

    def _stop(self) -> None:
        """In good order."""
        for client in self.clients:
            if client.broker is not None:
                client.die()
        # Its last record, which may or may not be there, says that it was stopped.
        self._last_words = 1
        with suppress(OSError):
            self.broker.stop()
            self._ended_in_order = self.broker.failure is None and not self.broker.full
        if self._ended_in_order:
            self.books.durable = self.broker.core.records.lsn + 1
        self._crash()

    def _stop_after_failure(self) -> None:
        self.books.count("failures")
        self.broker.journal.close()
        self._crash()

    def _end(self) -> None:
        """No more faults: everything that is there can be had, and then nothing is left."""
        self._be_kind()
        come_to_rest(self.broker)
        if self.broker.failure is not None:
            self._stop_after_failure()
            self._be_kind()
        for client in self.clients:
            if client.broker is not None:
                client.die()
        drain(self.broker, self.books, self.chance, self.clock.set_back_ms)
        nothing_is_left(self.broker, self.books)
        old_files_go(self.broker, self.books, self.chance)
        self.broker.stop()
        self._leave()

    def _be_kind(self) -> None:
        files = self.broker.files
        files.fail_sync_at = files.fail_append_at = -1
        files.crash_in = files.capacity = None
