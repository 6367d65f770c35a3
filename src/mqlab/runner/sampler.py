"""The sampler: reads the resources of the processes of a run at fixed intervals, and those of the disk and network.

The loopback interface has no bandwidth limit and is not sampled.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import psutil

from mqlab.events.schema import SampleRow
from mqlab.json_values import JsonObject
from mqlab.runner.agents.handle import AgentHandle, AgentLostError
from mqlab.systems import Running, SystemFailedError
from mqlab.wire.address import Address, BadAddressError

# Short enough for a measure phase of a second, long enough to cost nothing: a sample takes under a millisecond.
_MAX_INTERVAL_SECONDS: Final = 0.2
_MIN_INTERVAL_SECONDS: Final = 0.05
# A system that does not answer for so long counts as failed: a sync of a failing disk takes less.
_SAMPLE_SECONDS: Final = 30.0
# An agent that does not answer for so long has no sample.
_RESOURCES_SECONDS: Final = 1.0
_INTERFACES: Final = Path("/sys/class/net")
_MEGABIT: Final = 1e6
# Columns of a sample that are no counters.
_LEVELS: Final = ("rss", "depth", "blocked")
# The kernel's counters, and the sources of their samples.
_SOURCES: Final = {"rx_bytes": "network-in", "tx_bytes": "network-out"}


class NetworkLink:
    """`folder` is the interface in /sys/class/net."""

    def __init__(self, folder: Path, bits_per_s: float) -> None:
        self._folder = folder
        self._bits_per_s = bits_per_s

    @classmethod
    def to(cls, address: str, bits_per_s: float | None, interfaces: Path = _INTERFACES) -> "NetworkLink | None":
        """The link to an address. None if it is on this machine, or if its bandwidth is not known.

        Without `bits_per_s` it is the bandwidth that the kernel reports.
        """
        try:
            parsed = Address.parse(address)
        except BadAddressError:
            return None
        name = "" if parsed.is_local else _interface(parsed.host, parsed.port)
        bits_per_s = bits_per_s or (_reported_bits_per_s(interfaces / name) if name else None)
        return cls(interfaces / name, bits_per_s) if name and bits_per_s else None

    def sample(self) -> dict[str, JsonObject]:
        """Columns of a sample for each direction, by source: bytes, and the seconds that the link needs for them."""
        rows = {}
        for file, source in _SOURCES.items():
            count = int((self._folder / "statistics" / file).read_text())
            column = "bytes_read" if file == "rx_bytes" else "bytes_written"
            rows[source] = {"cpu_seconds": 0.0, "rss": 0, "sync_seconds": count * 8 / self._bits_per_s, column: count}
        return rows


@lru_cache(maxsize=16)
def _interface(host: str, port: int) -> str:
    """The interface of the route to the host; "" if the host is this machine or has no route."""
    try:
        family, kind, *_, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as datagrams:
            # Connecting a datagram socket only selects the route: it sends nothing.
            datagrams.connect(remote)
            local = datagrams.getsockname()[0]
    except OSError:
        return ""
    if local == remote[0]:
        return ""
    names = (name for name, bound in psutil.net_if_addrs().items() if any(entry.address == local for entry in bound))
    return next(names, "")


def _reported_bits_per_s(folder: Path) -> float | None:
    """The bandwidth that the kernel reports; for many virtual interfaces it reports none."""
    try:
        megabits = int((folder / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * _MEGABIT if megabits > 0 else None


def process_columns(process: psutil.Process) -> JsonObject:
    """Columns of a sample. Raises psutil.Error if the process has ended."""
    cpu, io = process.cpu_times(), process.io_counters()
    return {
        "cpu_seconds": cpu.user + cpu.system,
        "rss": process.memory_info().rss,
        "bytes_read": io.read_bytes,
        "bytes_written": io.write_bytes,
    }


def _disk_wait_seconds() -> float | None:
    """Seconds since boot in which some process waited for a disk; None if the kernel does not count them."""
    try:
        some = Path("/proc/pressure/io").read_text().partition("\n")[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


class Sampler:
    """Samples during a run. `measure_seconds` is the length of the measure phase, if it is known.

    `observe` is called with each sample.
    """

    def __init__(
        self,
        brokers: Mapping[str, Running],
        agents: Iterable[AgentHandle],
        measure_seconds: float | None = None,
        observe: Callable[[SampleRow], None] | None = None,
    ) -> None:
        self.rows: list[SampleRow] = []
        self.failed: SystemFailedError | None = None
        # While a fault goes on, a system that does not answer has not failed.
        self.is_fault = False
        # The counters of a process that was started again begin at 0: the last values before that are added.
        self._counted: dict[str, JsonObject] = {}
        self._earlier: dict[str, JsonObject] = {}
        # At least two samples must fall into the measure phase.
        interval_seconds = 0.0 if measure_seconds is None else measure_seconds / 4
        self._interval_seconds = max(_MIN_INTERVAL_SECONDS, min(_MAX_INTERVAL_SECONDS, interval_seconds))
        self._brokers = brokers
        self._observe = observe
        links = (NetworkLink.to(broker.address, broker.network_bits_per_s) for broker in brokers.values())
        self._link = next((link for link in links if link is not None), None)
        self._agents: dict[str, psutil.Process] = {}
        self._agents_elsewhere: list[AgentHandle] = []
        for agent in agents:
            if not agent.is_here:
                self._agents_elsewhere.append(agent)
                continue
            try:
                self._agents[f"agent-{agent.number}"] = psutil.Process(agent.pid)
            except psutil.Error as error:
                raise AgentLostError(f"{agent.name} has ended") from error
        self._task = asyncio.ensure_future(self._sample_repeatedly())

    async def wait_failed(self) -> None:
        """Returns when a system has ended or does not answer; `failed` is the error."""
        await asyncio.wait((self._task,))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _sample_repeatedly(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_SAMPLE_SECONDS):
                    for source, broker in self._brokers.items():
                        if not self.is_fault:
                            self._add(source, self._count_on(source, await broker.sample()))
            except SystemFailedError as error:
                if not self.is_fault:
                    self.failed = error
                    return
            except TimeoutError:
                if not self.is_fault:
                    self.failed = SystemFailedError(f"the system did not answer for {_SAMPLE_SECONDS:g} s")
                    return
            for source, process in self._agents.items():
                with suppress(psutil.Error):
                    self._add(source, process_columns(process))
            await asyncio.gather(*map(self._ask_resources, self._agents_elsewhere))
            if (wait_seconds := _disk_wait_seconds()) is not None:
                self._add("disk", {"cpu_seconds": 0.0, "rss": 0, "sync_seconds": wait_seconds})
            if self._link is not None:
                with suppress(OSError):
                    for source, columns in self._link.sample().items():
                        self._add(source, columns)
            await asyncio.sleep(self._interval_seconds)

    async def _ask_resources(self, agent: AgentHandle) -> None:
        """The sample of an agent on another machine, by itself; the run goes on without one that comes late."""
        with suppress(AgentLostError):
            columns = await agent.ask("report_resources", timeout_s=_RESOURCES_SECONDS)
            self._add(f"agent-{agent.number}@{agent.host}", columns)

    def _count_on(self, source: str, columns: JsonObject) -> JsonObject:
        """The columns, with the counters of the processes before a fault in those of the present one."""
        counted = {name: value for name, value in columns.items() if name not in _LEVELS and value is not None}
        before, earlier = self._counted.get(source, {}), self._earlier.setdefault(source, {})
        if any(counted[name] < before.get(name, 0) for name in counted):
            self._earlier[source] = earlier = {name: earlier.get(name, 0) + before.get(name, 0) for name in counted}
        self._counted[source] = counted
        return columns | {name: value + earlier.get(name, 0) for name, value in counted.items()}

    def _add(self, source: str, columns: JsonObject) -> None:
        # A system on another machine has no columns, so it gets no row.
        if columns:
            self.rows.append(SampleRow(source=source, t=time.monotonic_ns(), **columns))
            if self._observe is not None:
                self._observe(self.rows[-1])
