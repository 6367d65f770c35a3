"""One broker with its disk, through all its lives: it starts, is killed or loses its power, and starts again."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from broker.store.disk import Disk, write_image
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.channels.channel import SenderChannel
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from simulation.files import Crashed, SimulatedFiles

from .loop import Loop
from .network import Network
from .timeline import Timeline

# What a sync takes: one of these seconds, more or less. On a slow disk much happens before a removal is durable.
_DISKS = (0.0001, 0.001), (0.0001, 0.02), (0.1, 0.4)
# When those who talked to it learn that it is gone: a kill closes sockets, a power failure does not.
_KILLED, _DARK = (0.0001, 0.001), (0.001, 1.0, 30.0)


class Site:
    """`lives`: how often each broker has started, by name."""

    def __init__(self, settings: Settings, timeline: Timeline, network: Network, lives: dict[str, int]) -> None:
        assert settings.data is not None
        self.name = settings.name
        self.settings = settings
        self.counts: dict[str, int] = {}
        # Something may go wrong when it starts.
        self.kind = False
        self.broker: Broker | None = None
        self._folder: Path = settings.data
        self._folder.mkdir()
        self._timeline = timeline
        self._network = network
        self._lives = lives
        self._disk = Disk({})
        self._sync_seconds = timeline.chance.choice(_DISKS)
        self._stop = asyncio.Event()
        self.complaints: list[str] = []

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # Its lives

    def start(self) -> None:
        self._lives[self.name] = self._lives.get(self.name, 0) + 1
        self.files = SimulatedFiles(self._folder, self._timeline.chance, None)
        if not self.kind and self._timeline.chance.random() < 0.1:
            self.files.crash_in = self._timeline.chance.randrange(12)
        # It has those methods of a loop that broker and client call.
        self._loop = Loop(self._timeline, self._network, self.kill)  # type: ignore[abstract]
        self._loop.files, self._loop.complaints = self.files, self.complaints
        self._loop.sync_seconds = self._sync_seconds
        self._loop.create_task(self._live()).add_done_callback(self._lived)
        self._timeline.tell(f"{self.name} starts")

    async def _live(self) -> None:
        self._stop = asyncio.Event()
        async with running(self.settings) as (broker, _):
            self.broker = broker
            # Not in the order of their addresses in memory: a seed is to repeat exactly.
            broker.connections = InOrder()
            stop = asyncio.ensure_future(self._stop.wait())
            await asyncio.wait((stop, broker.failure), return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if broker.failure.done():
                self.count("failures")

    def _lived(self, task: asyncio.Task[None]) -> None:
        """It has ended in good order, or as it does when its disk fails."""
        if self._loop.dead or task.cancelled():
            return
        error = task.exception()
        if isinstance(error, OSError):
            # Its disk failed while it was stopped.
            self.count("failures")
        elif error is not None:
            self._loop.call_exception_handler({"message": f"{self.name} ends", "exception": error})
        if not isinstance(error, Crashed):
            self._timeline.after(0, partial(self._leave, power=False))

    def stop(self) -> None:
        """In good order."""
        self.count("stops")
        self._loop.call_soon(self._stop.set)

    def kill(self) -> None:
        """The process is gone, or the power is."""
        power = self._timeline.chance.random() < 0.5
        self.count("power failures" if power else "kills")
        self._leave(power=power)

    def _leave(self, *, power: bool) -> None:
        """What is left on disk is what the next life finds."""
        if self._loop.dead:
            return
        timeline, chance = self._timeline, self._timeline.chance
        timeline.tell(f"{self.name} is gone{', and the power, too' if power else ''}")
        self.broker = None
        self.files.end()
        self._network.leave(self._loop, *(_DARK if power else _KILLED))
        self._loop.die()
        for call in self.files.log:
            self._disk.do(call)
        if power:
            self._disk = Disk(chance.choice([*self._disk.after_power_failure(chance)]))
        shutil.rmtree(self._folder / "pages", ignore_errors=True)
        write_image(self._folder, self._disk.after_kill())
        timeline.after(0.01 if self.kind else timeline.some(0.01, 0.3, 1.0), self.start)

    def crash_soon(self) -> None:
        self.files.crash_in = self._timeline.chance.randrange(12)

    def be_kind(self) -> None:
        """Nothing goes wrong from now on."""
        self.kind = True
        self.files.crash_in = None
        self.files.fail_sync_at = self.files.fail_append_at = -1

    def restart_channel(self, seconds: float) -> None:
        """An administrator stops it, and starts it after a while."""
        assert self.broker is not None
        (to,) = (one.to for one in self.settings.channels)
        self._loop.create_task(_restart(self.broker.channels.get(to), seconds))

    def end(self) -> None:
        """For good."""
        if not self._loop.dead:
            self.files.end()
            self._loop.die()


async def _restart(one: SenderChannel, seconds: float) -> None:
    await one.stop()
    await asyncio.sleep(seconds)
    one.start()


Item = TypeVar("Item")


class InOrder(set[Item]):
    """What was added first comes first."""

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[Item, None] = {}

    def add(self, one: Item) -> None:
        super().add(one)
        self._since[one] = None

    def discard(self, one: Item) -> None:  # type: ignore[override] # typeshed takes any object
        super().discard(one)
        self._since.pop(one, None)

    def __iter__(self) -> Iterator[Item]:
        return iter([*self._since])
