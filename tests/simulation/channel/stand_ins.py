"""What stands in for the parts of a broker that would touch the world: its threads, its files and its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from broker.store.workers import Sync
from mqlab.broker.server import broker, scheduler, startup, wall_clock
from mqlab.broker.server.channels import channel
from mqlab.broker.server.disk_threads import DoneCallback
from mqlab.broker.server.native import frame_reader
from mqlab.broker.server.protocol_detection import ProtocolDetection
from mqlab.broker.server.trace import activity_trace
from mqlab.wire.address import Address
from simulation.clock import in_place as store_in_place
from simulation.files import SimulatedFiles

from .loop import Loop
from .network import Server
from .timeline import Timeline


class Threads:
    """Stands in for the threads that wait for the disk: several syncs may be under way, and end in any order."""

    def __init__(self, loop: Loop, _most: int) -> None:
        self._loop = loop
        self._syncs: list[Sync] = []

    def submit(self, work: Callable[[], None], done: DoneCallback) -> None:
        sync = Sync(work, done)
        self._syncs.append(sync)
        self._later(partial(self._work, sync), *self._loop.sync_seconds)

    def run_inline(self, work: Callable[[], None], done: DoneCallback) -> None:
        timeline = self._loop.timeline
        timeline.clock.seconds += timeline.some(0.00001, 0.001)
        done(_attempt(work))

    def close(self) -> None:
        for sync in [*self._syncs]:
            self._work(sync)
            self._loop.call_soon(self._report, sync)

    def _work(self, sync: Sync) -> None:
        if sync.is_worked:
            return
        sync.is_worked = True
        sync.error = _attempt(sync.work)
        self._later(partial(self._report, sync), 0.00001, 0.001)

    def _report(self, sync: Sync) -> None:
        if sync in self._syncs:
            self._syncs.remove(sync)
            sync.done(sync.error)

    def _later(self, action: Callable[[], None], *seconds: float) -> None:
        """In a turn of the loop, where a crash is noticed."""
        timeline = self._loop.timeline
        timeline.after(timeline.some(*seconds), partial(self._loop.call_soon, action))


def _attempt(work: Callable[[], None]) -> OSError | None:
    try:
        work()
    except OSError as error:
        return error
    return None


class NoLock:
    """A folder of one simulation only."""

    def __init__(self, _folder: Path) -> None: ...

    def release(self) -> None: ...


async def _listen_at(for_broker: broker.Broker, address: Address) -> tuple[Server, Address]:
    """In the simulated network there are no sockets to accept from."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return await loop.create_unix_server(lambda: ProtocolDetection(for_broker), address.path), address


def _files() -> SimulatedFiles:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    assert loop.files is not None
    return loop.files


@contextmanager
def in_place(timeline: Timeline) -> Iterator[None]:
    """Brokers live by this time, on simulated disks."""
    with (
        store_in_place(timeline.clock), patch.object(broker, "time_ns", timeline.clock.time_ns),
        patch.object(wall_clock, "time_ns", timeline.clock.time_ns),
        patch.object(wall_clock, "monotonic_ns", timeline.clock.monotonic_ns),
        patch.object(scheduler, "time_ns", timeline.clock.time_ns),
        patch.object(frame_reader, "time_ns", timeline.clock.time_ns),
        patch.object(channel, "time", timeline.clock),
        patch.object(broker, "Files", _files), patch.object(broker, "DiskThreads", Threads),
        patch.object(startup, "listen_at", _listen_at),
        patch.object(broker, "FolderLock", NoLock), patch.object(activity_trace, "time", timeline.clock),
    ):  # fmt: skip
        yield
