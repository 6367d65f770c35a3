"""Noise: other work of the machine during a run. It must not look like a slower system."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from mqlab.events.schema import MachineRow
from mqlab.json_values import JsonObject

# A run is disturbed if other work took more than this share of the processors. The rate of a system that needs all
# processors falls by about this share; below it the neighbours of a virtual machine are part of the runs' scatter.
MAX_TAKEN_SHARE: Final = 0.10
# Or if other processes took more than this share of one processor: on a machine with many they may take it from the one
# thread that limits the system. The host's other machines take from all processors alike.
MAX_FOREIGN_CORES: Final = 0.2
# Or if a run with persistent messages shared the disk: it worked more than this share of the time for other processes.
MAX_FOREIGN_DISK_SHARE: Final = 0.10
LIMITS: Final = {
    "max_taken_share": MAX_TAKEN_SHARE, "max_foreign_cores": MAX_FOREIGN_CORES,
    "max_foreign_disk_share": MAX_FOREIGN_DISK_SHARE,
}  # fmt: skip
_PROC: Final = Path("/proc")
_CPUS: Final = Path("/sys/devices/system/cpu")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Kernel threads are children of this process. They do the disk and network work of everybody, also the lab's.
_KERNEL_THREADS: Final = 2
# Fields of /proc/PID/stat behind the name: parent, and CPU time of the process and of its ended children.
_PARENT, _TIMES = 1, slice(11, 15)
_STEAL: Final = 8  # field of the first line of /proc/stat
# Fields of a line of /proc/diskstats: the device, and the milliseconds in which it worked.
_DEVICE, _WORKED_MS = 2, 12


@dataclass(frozen=True)
class _Process:
    """`disk_bytes`: what it read from and wrote to disks; 0 if the lab may not know."""

    name: str
    parent: int
    cpu_seconds: float
    disk_bytes: int


@dataclass(frozen=True)
class _State:
    """The machine at one moment; all but the time are counters."""

    seconds: float
    steal_seconds: float
    foreign: Mapping[int, _Process]
    own: Mapping[int, _Process]
    waits: Mapping[str, float | None]
    disks: Mapping[str, float] | None  # the seconds in which each worked; None where the kernel does not count them

    @classmethod
    def now(cls, proc: Path, agents: Iterable[int]) -> "_State":
        steal = int((proc / "stat").read_text().split(maxsplit=_STEAL + 1)[_STEAL]) / _TICKS
        waits = {resource: _wait_seconds(proc / "pressure" / resource) for resource in ("cpu", "memory", "io")}
        processes = _processes(proc)
        foreign = _foreign(processes, [os.getpid(), *agents])
        own = {pid: process for pid, process in processes.items() if pid not in foreign}
        return cls(time.monotonic(), steal, foreign, own, waits, _disks(proc))


class MachineWatch:
    """Watches from its creation to `end`. `agents`: processes of the lab that do not descend from this one."""

    def __init__(self, proc: Path = _PROC, agents: Sequence[int] = ()) -> None:
        self._proc = proc
        self._agents = agents
        self._begin = _State.now(proc, agents)

    def end(self, *, system_known: bool = True, is_persistent: bool = False) -> MachineRow:
        """`system_known`: if not, processes of the system may be among those that are not the lab's.

        `is_persistent`: the messages are written to the disk, so its other users disturb the run.
        """
        begin, end = self._begin, _State.now(self._proc, self._agents)
        used = _increase(begin.foreign, end.foreign, "cpu_seconds") if system_known else {}
        waits = {key: _difference(begin.waits[key], end.waits[key]) for key in end.waits}
        disk_seconds, disk_name = _foreign_disk(begin, end) if system_known else (None, "")
        row = MachineRow(
            seconds=end.seconds - begin.seconds, cores=os.cpu_count() or 1,
            steal_seconds=end.steal_seconds - begin.steal_seconds,
            foreign_seconds=max(0.0, sum(used.values())) if system_known else None,
            foreign_name=_greatest(used, end.foreign), foreign_disk_seconds=disk_seconds,
            cpu_wait_seconds=waits["cpu"], memory_wait_seconds=waits["memory"], disk_wait_seconds=waits["io"],
            clock_hz=_clock_hz(),
        )  # fmt: skip
        reasons = why_processors_disturb(row), why_disk_disturbs(row, disk_name) if is_persistent else ""
        return replace(row, disturbed="; ".join(filter(None, reasons)))


def why_processors_disturb(row: MachineRow) -> str:
    """Empty if other work took at most MAX_TAKEN_SHARE of the processors, and MAX_FOREIGN_CORES of one."""
    processor_seconds, foreign = row.seconds * row.cores, row.foreign_seconds or 0.0
    others = f"other processes ({row.foreign_name})" if row.foreign_name else "other processes"
    if row.steal_seconds + foreign > MAX_TAKEN_SHARE * processor_seconds:
        taken = {"other virtual machines": row.steal_seconds, others: foreign}
        parts = [f"{who} took {seconds / processor_seconds:.0%}" for who, seconds in taken.items() if seconds > 0]
        return f"{' and '.join(parts)} of the processors"
    if foreign > MAX_FOREIGN_CORES * row.seconds:
        return f"{others} took {foreign / row.seconds:.0%} of one processor"
    return ""


def why_disk_disturbs(row: MachineRow, name: str) -> str:
    """Empty if the disk worked at most MAX_FOREIGN_DISK_SHARE of the time for other processes."""
    share = (row.foreign_disk_seconds or 0.0) / row.seconds
    if share <= MAX_FOREIGN_DISK_SHARE:
        return ""
    return f"the disk worked {share:.0%} of the time for other processes{f' ({name})' if name else ''}"


def machine_state() -> JsonObject:
    """The state of the machine before the runs, for meta.json."""
    return {"load_average": [round(load, 2) for load in os.getloadavg()], "clock_hz": _clock_hz()}


def _processes(proc: Path) -> dict[int, _Process]:
    found = {}
    for folder in os.listdir(proc):
        if folder.isdigit():
            try:
                # The name is in parentheses, and may contain some.
                head, _, rest = (proc / folder / "stat").read_text(errors="replace").rpartition(")")
            except OSError:
                continue  # it has ended
            fields = rest.split()
            cpu_seconds = sum(map(int, fields[_TIMES])) / _TICKS
            disk_bytes = _disk_bytes(proc / folder / "io")
            found[int(folder)] = _Process(head.partition("(")[2], int(fields[_PARENT]), cpu_seconds, disk_bytes)
    return found


def _foreign(processes: Mapping[int, _Process], lab: Iterable[int]) -> dict[int, _Process]:
    """Those that neither descend from the lab nor belong to the kernel."""
    own = {*lab, _KERNEL_THREADS}
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    waiting = [*own]
    while waiting:
        found = children.get(waiting.pop(), [])
        own.update(found)
        waiting += found
    return {pid: process for pid, process in processes.items() if pid not in own}


def _disk_bytes(file: Path) -> int:
    """Those of the process and of its ended children. Only root may read the files of other users."""
    try:
        counters = dict(line.split(": ") for line in file.read_text().splitlines())
    except OSError:
        return 0
    written = int(counters["write_bytes"]) - int(counters["cancelled_write_bytes"])
    return int(counters["read_bytes"]) + written


def _disks(proc: Path) -> dict[str, float] | None:
    try:
        lines = [line.split() for line in (proc / "diskstats").read_text().splitlines()]
    except OSError:
        return None
    return {fields[_DEVICE]: int(fields[_WORKED_MS]) / 1000 for fields in lines}


def _foreign_disk(begin: _State, end: _State) -> tuple[float | None, str]:
    """The time in which the busiest disk worked for other processes; and the one that used it most.

    The kernel counts the bytes of each process, and the time of each disk. The share of the bytes divides the time:
    what a file system adds to them, it adds to those of the lab and of others alike.
    """
    if begin.disks is None or end.disks is None:
        return None, ""
    worked = max((seconds - begin.disks.get(disk, 0.0) for disk, seconds in end.disks.items()), default=0.0)
    used = _increase(begin.foreign, end.foreign, "disk_bytes")
    foreign = max(0.0, sum(used.values()))
    own = max(0.0, sum(_increase(begin.own, end.own, "disk_bytes").values()))
    return worked * foreign / (foreign + own) if foreign else 0.0, _greatest(used, end.foreign)


def _increase(
    begin: Mapping[int, _Process], end: Mapping[int, _Process], counter: Literal["cpu_seconds", "disk_bytes"]
) -> dict[int, float]:
    """That of each process. An ended one is in the count of its parent: together they are the difference."""
    return {pid: _count(end, pid, counter) - _count(begin, pid, counter) for pid in {*begin, *end}}


def _count(processes: Mapping[int, _Process], pid: int, counter: str) -> float:
    return float(getattr(processes[pid], counter)) if pid in processes else 0.0


def _greatest(used: Mapping[int, float], processes: Mapping[int, _Process]) -> str:
    """The name of the process that used most; "" if it has ended, or if all together used nothing."""
    busiest = max(used, key=used.__getitem__, default=0)
    return processes[busiest].name if sum(used.values()) > 0 and busiest in processes else ""


def _wait_seconds(file: Path) -> float | None:
    """The time in which at least one process waited (PSI); None where the kernel does not count it."""
    try:
        first = file.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return int(first.rpartition("total=")[2]) / 1e6


def _difference(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else end - begin


def _clock_hz() -> float | None:
    files = [*_CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")]
    try:
        kilohertz = [int(file.read_text()) for file in files]
    except (OSError, ValueError):
        return None
    return 1000 * sum(kilohertz) / len(kilohertz) if kilohertz else _reported_hz()


def _reported_hz() -> float | None:
    """From /proc/cpuinfo: a virtual machine has no other."""
    lines = (_PROC / "cpuinfo").read_text().splitlines()
    megahertz = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return 1e6 * sum(megahertz) / len(megahertz) if megahertz else None
