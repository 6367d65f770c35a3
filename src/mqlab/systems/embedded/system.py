"""The embedded broker as a process, or hosted in an agent."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final, Self

import psutil
import pyarrow as pa

from mqlab import __version__
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.server.trace.traced_links import TRACE_QUEUE
from mqlab.broker.settings import SettingError, Settings
from mqlab.client import aio
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.study import Point
from mqlab.study.language.faults import FaultTarget
from mqlab.systems.api import (
    LAB_SETTINGS,
    Durability,
    Hosted,
    Running,
    SwitchMoments,
    System,
    SystemFailedError,
    SystemSettingError,
)
from mqlab.systems.embedded.process import BrokerProcess
from mqlab.systems.embedded.settings import FILE_SETTINGS, LIVE_SETTINGS, EmbeddedSettings
from mqlab.systems.embedded.trace import OWN_APPLICATION, TraceQueueReader
from mqlab.systems.install.download import install, missing, path_of
from mqlab.systems.install.qpid_jms import QPID_JMS
from mqlab.systems.program import free_port

_ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.02
# Deliveries of the messages in all queues, and of those on the way to them, where producers wait for nothing: enough
# to keep consumers busy, and done within a fraction of a second. The fewest messages; and of one queue or producer.
_DELIVERIES: Final = 4096
_FEWEST_MESSAGES: Final = 512
_FEWEST_EACH: Final = 128
_QUEUE_LIMITS: Final = ("queue_limit", "message_limit")
_WINDOW: Final = "producer_window"
# The journal files where the disk gets full.
_SMALL_SEGMENT: Final = "1MiB"
# Options of drivers; and the driver of hosted brokers.
_OPTIONS: Final[dict[str, dict[str, str]]] = {
    "stomp": {"flavour": "mqlab"},
    "amqp10": {"flavour": "mqlab"},
    "jms": {"provider": "qpid-jms"},
}
_HOSTED_DRIVER: Final = "native"
# Durability of confirmations and acknowledgements, with `sync: on` and `sync: off`. Reports and documents take these
# texts from here (`scripts/tables.py`).
_REMOVED: Final = "when the consumer asks for the next message, acknowledges or commits"
_DURABILITY: Final = {
    "on": Durability(
        syncs="before confirming",
        persistent="written to the journal and synced",
        confirmed="accepted by the broker, in memory",
        acknowledged=f"{_REMOVED}; a commit is synced like a send, anything else is written within about 1 ms and "
        "synced with the next record that a client waits for",
        replies="retrieved by correlation id from a queue that all requesters share",
    ),
    "off": Durability(
        syncs="never",
        persistent="written to the journal, not synced",
        confirmed="accepted by the broker, in memory",
        acknowledged=f"{_REMOVED}; a commit is written like a send, anything else within about 1 ms; nothing is synced",
        replies="retrieved by correlation id from a queue that all requesters share",
    ),
}


class EmbeddedRunning(Running):
    """`broker`: its process, if the lab started it. `reader` reads its activity trace, if it has one.

    `folder`: that of its data. `settings`: those that it has now.
    """

    def __init__(
        self, address: str, process: psutil.Process, control: aio.Connection, broker: BrokerProcess | None,
        attach: Callable[[], Awaitable["EmbeddedRunning"]], reader: TraceQueueReader | None, folder: Path,
        settings: EmbeddedSettings,
    ) -> None:  # fmt: skip
        self.address = address
        self.pid = process.pid
        self._process = process
        self._control = control
        self._broker = broker
        self._attach = attach
        self._reader = reader
        # The file with the seconds by which its syncs take longer, if it is ready for that.
        self.delay_file: Path | None = None
        self._folder = folder
        self._settings = settings

    async def sample(self) -> JsonObject:
        try:
            status = await self._control.status()
            cpu, io = self._process.cpu_times(), self._process.io_counters()
            rss = self._process.memory_info().rss
        except (MessagingError, psutil.Error) as error:
            raise SystemFailedError(f"the embedded broker is gone: {error}") from error
        return {
            "cpu_seconds": cpu.user + cpu.system,
            "rss": rss,
            "syncs": status["syncs"],
            "sync_seconds": status["sync_seconds"],
            "bytes_read": io.read_bytes,
            "bytes_written": io.write_bytes,
            "depth": status["messages"],
            "blocked": status["held_producers"],
            "holds": status["holds"],
            "held_seconds": status["held_ms"] / 1000,
        }

    async def empty(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                if self._reader is not None:
                    await self._purge_trace()
                return bool((await self._control.status())["messages"] == 0)
        except (MessagingError, TimeoutError):
            return False

    async def depth(self, queue: str) -> int:
        return int((await self._ask("show", name=queue))["messages"])

    async def remove(self, queue: str) -> None:
        # Its consumers have closed their connections; a busy broker may notice that a little later.
        deadline = time.monotonic() + _ANSWER_SECONDS
        while (await self._ask("show", name=queue))["consumers"] and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        await self._ask("delete", name=queue)

    async def link(self, to: str, address: str) -> None:
        await self._ask("add_channel", to=to, address=address)

    async def unlink(self, to: str) -> None:
        await self._ask("stop_channel", to=to)

    async def operations(self) -> pa.Table | None:
        if self._reader is None:
            return None
        try:
            return await self._reader.read()
        except (MqlabError, ValueError, OSError) as error:
            raise SystemFailedError(f"the trace cannot be read: {error}") from error

    async def switch(self, system: System) -> SwitchMoments:
        if not isinstance(system, Embedded) or self._reader is None:
            return await super().switch(system)
        before, after = self._settings, system.live
        if before.stanzas() != after.stanzas():
            # The work for the records so far belongs to the settings so far.
            await self._ask("trace")
        asked = time.monotonic_ns()
        if (level := after.settings().monitoring) != before.settings().monitoring:
            await self._ask("monitoring", level=level)
        try:
            if before.stanzas() != after.stanzas():
                after.write_stanzas(self._folder)
                await self._ask("trace")  # the broker reads the file
            await self._reader.set_read_out(after.read_out)
            if bool(before.api_trace) != bool(after.api_trace):
                await self._ask("api_trace", on="yes" if after.api_trace else "no")
        except (MqlabError, OSError) as error:
            raise SystemFailedError(f"the settings cannot be switched: {error}") from error
        self._settings = after
        return SwitchMoments(asked, time.monotonic_ns())

    def kill(self) -> None:
        self._process.kill()

    async def shut_down(self) -> None:
        await self.stop()

    async def start_again(self) -> None:
        # Closes what is connected to the former process, and waits for its end.
        await self.stop()
        if self._broker is None:
            await super().start_again()
            return
        try:
            await self._broker.start()
            fresh = await self._attach()
        except (OSError, MessagingError) as error:
            raise SystemFailedError(f"the embedded broker did not start again: {self._broker.why(error)}") from error
        self.pid, self._process = fresh.pid, fresh._process
        self._control, self._reader = fresh._control, fresh._reader

    def suspend(self) -> None:
        self._process.suspend()

    def resume(self) -> None:
        with suppress(psutil.NoSuchProcess):
            self._process.resume()

    def delay_syncs(self, seconds: float) -> None:
        if self.delay_file is None:
            super().delay_syncs(seconds)
        else:
            self.delay_file.write_text(str(seconds))

    async def stop(self) -> None:
        try:
            if self._reader is not None:
                with suppress(MqlabError, ValueError, OSError):
                    await self._reader.close()
            with suppress(MessagingError):
                await self._control.close()
        finally:
            if self._broker is not None:
                await self._broker.end()

    async def _purge_trace(self) -> None:
        """Delete the records of the end of a run, which come after the runner has read the trace."""
        await self._control.ask("trace")  # the broker puts all its records on the queue
        with suppress(RefusedError):  # no queue, since nothing was traced
            await self._control.ask("purge", name=TRACE_QUEUE)

    async def _ask(self, command: str, **arguments: object) -> JsonObject:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._control.ask(command, **arguments)
        except (MessagingError, TimeoutError) as error:
            raise SystemFailedError(f"the embedded broker failed to {command} {arguments}: {error}") from error


class Embedded(System):
    name = "embedded"
    title = "mqlab's own broker"
    drivers = ("native", "stomp", "mqtt", "mqtt3", "amqp10", "jms")
    file_settings = FILE_SETTINGS
    lacks_faults: ClassVar[Mapping[FaultTarget, str]] = {}
    live_settings = LIVE_SETTINGS

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        if self.driver not in self.drivers:
            raise SystemSettingError(f"embedded: driver: {self.driver[:80]!r} is none of {', '.join(self.drivers)}")
        self.compiles = self.driver == "jms"
        self._settings = EmbeddedSettings.parse(
            {key: value for key, value in settings.items() if key not in LAB_SETTINGS}
        )

    def for_point(self, point: Point, settings: Mapping[str, str]) -> Self:
        """Bound the messages on their way between producers and consumers that wait for nothing, as far as no limit is
        given.

        With the broker's own limits a run would only fill its queues: a short one never comes to its steady state. And
        a full disk would not matter to a broker that has reserved a large file.
        """
        if "disk" in point.prepared_targets:
            return self.with_settings({"segment_size": _SMALL_SEGMENT, **self.settings, **settings})
        if not point.is_unthrottled or point.load != "both" or point.preload:
            return self.with_settings(settings)
        given = {*self.settings, *settings}
        messages = max(_FEWEST_MESSAGES, _DELIVERIES // point.copies)
        limits = {}
        if given.isdisjoint(_QUEUE_LIMITS):
            limits["queue_limit"] = str(max(_FEWEST_EACH, messages // point.destinations) * point.size)
        if _WINDOW not in given:
            limits[_WINDOW] = str(max(_FEWEST_EACH, messages // point.producers) * point.size)
        return self.with_settings({**settings, **limits})

    def for_switching(self) -> Self:
        return self.with_settings({"switchable": "yes"})

    @property
    def live(self) -> EmbeddedSettings:
        """The settings of which `Running.switch` changes those of `LIVE_SETTINGS`."""
        return self._settings

    def describe(self) -> JsonObject:
        settings = {**self.lab_settings, **self._settings.describe()}
        return {
            "name": self.label, "version": f"mqlab {__version__}", "settings": settings,
            "stamps": _stamps(self._settings.settings()),
        }  # fmt: skip

    def durability(self) -> Durability:
        return _DURABILITY[self._settings.settings().sync]

    @property
    def jars(self) -> str:
        return str(path_of(QPID_JMS)) if self.driver == "jms" else ""

    def missing(self) -> str:
        """The broker comes with mqlab; only the JMS client must be installed."""
        if self.driver != "jms" or not (reason := missing(QPID_JMS)):
            return ""
        return f"the JMS client is not installed ({reason}): mqlab systems install {self.name}:driver=jms"

    def install(self, say: Callable[[str], None]) -> None:
        if self.driver == "jms":
            install(QPID_JMS, say)
        else:
            say("it comes with mqlab")

    async def start(self, folder: Path) -> Running:
        if reason := self.missing():
            raise SystemFailedError(reason)
        delay_file = folder.with_name(f"{folder.name}.delay") if "syncs" in self.ready_for else None
        values = self._settings.with_files(folder)
        if delay_file is not None:
            delay_file.write_text("0")
            values["disk_delay"] = delay_file
        options = [_option(key, value) for key, value in values.items()]
        # A broker that starts again must get the same port: no client may have got it meanwhile.
        broker = BrokerProcess(folder, f"tcp:127.0.0.1:{free_port()}", options)
        try:
            await broker.start()
            running = await self._attach(broker.address, broker.pid, folder, broker)
            running.delay_file = delay_file
            return running
        except (OSError, MessagingError) as error:
            await broker.end()
            raise SystemFailedError(f"the embedded broker did not start: {broker.why(error)}") from error
        except BaseException:
            # It has its own session, so Ctrl-C does not reach it.
            await asyncio.shield(broker.end())
            raise

    async def host(self, folder: Path, name: str) -> Hosted:
        if self.driver != _HOSTED_DRIVER:
            raise SystemFailedError(f"a hosted embedded broker needs the driver {_HOSTED_DRIVER}")
        settings = self._settings.with_files(folder)
        try:
            broker_settings = Settings.flat(**settings, data=folder, name=name, listen=("tcp:127.0.0.1:0",))
            return _HostedBroker(await LocalBroker.start(broker_settings))
        except (SettingError, OSError) as error:
            raise SystemFailedError(f"the embedded broker did not start: {error}") from error

    async def attach(self, address: str, pid: int, folder: Path) -> Running:
        try:
            return await self._attach(address, pid, folder, None)
        except (OSError, MessagingError) as error:
            raise SystemFailedError(f"the embedded broker does not answer: {error}") from error

    async def _attach(self, address: str, pid: int, folder: Path, broker: BrokerProcess | None) -> EmbeddedRunning:
        settings = self._settings
        try:
            process = psutil.Process(pid)
        except psutil.Error as error:
            raise OSError(str(error)) from error
        control = await aio.connect(address, application=OWN_APPLICATION)
        if settings.switches_api_trace:
            await control.ask("api_trace", on="no")
        reader = None
        if settings.traces:
            reader = await TraceQueueReader.start(address, folder.with_name(f"{folder.name}.records"))
            await reader.set_read_out(settings.read_out)

        def attach() -> Awaitable[EmbeddedRunning]:
            return self._attach(address, pid if broker is None else broker.pid, folder, broker)

        running = EmbeddedRunning(address, process, control, broker, attach, reader, folder, settings)
        running.options = dict(_OPTIONS.get(self.driver, {}))
        if self.jars:
            running.options["jars"] = self.jars
        return running


class _HostedBroker(Hosted):
    def __init__(self, local: LocalBroker) -> None:
        self.address = str(local.addresses[0])
        self._local = local

    async def close(self) -> None:
        await self._local.close()


def _option(key: str, value: object) -> str:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name}={'none' if value in (None, '') else value}"


def _stamps(settings: Settings) -> list[str]:
    """The settings that change the meaning of figures."""
    stamps = []
    if settings.sync == "off":
        stamps.append("sync off: a power failure loses confirmed messages")
    if settings.disk_marks:
        stamps.append(f"imitated disk: syncs complete at {settings.disk_marks} marks a second")
    if settings.policy.when_full == "drop-oldest":
        stamps.append("drop-oldest: a subscription that is full loses messages")
    if settings.policy.retrieval == "scan":
        stamps.append("retrieval by scan: a receive by id costs by the depth of the queue")
    return stamps
