"""Noise: other work of the machine during a run. It must not look like a slower system."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqlab.events.schema import MachineRow
from mqlab.json_values import JsonObject

# A run is disturbed if other work took more than this share of the processors. The rate of a system that needs all
# processors falls by about this share; below it the neighbours of a virtual machine are part of the runs' scatter.
MAX_TAKEN_SHARE: Final = 0.10
_PROC: Final = Path("/proc")
_CPUS: Final = Path("/sys/devices/system/cpu")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
# Kernel threads are children of this process. They do the disk and network work of everybody, also the lab's.
_KERNEL_THREADS: Final = 2
# Fields of /proc/PID/stat behind the name: parent, and CPU time of the process and of its ended children.
_PARENT, _TIMES = 1, slice(11, 15)
_STEAL: Final = 8  # field of the first line of /proc/stat


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    cpu_seconds: float


@dataclass(frozen=True)
class _State:
    """The machine at one moment; all but the time are counters."""

    seconds: float
    steal_seconds: float
    foreign: Mapping[int, _Process]
    waits: Mapping[str, float | None]

    @classmethod
    def now(cls, proc: Path, agents: Iterable[int]) -> "_State":
        steal = int((proc / "stat").read_text().split(maxsplit=_STEAL + 1)[_STEAL]) / _TICKS
        waits = {resource: _wait_seconds(proc / "pressure" / resource) for resource in ("cpu", "memory", "io")}
        return cls(time.monotonic(), steal, _foreign(_processes(proc), [os.getpid(), *agents]), waits)


class MachineWatch:
    """Watches from its creation to `end`. `agents`: processes of the lab that do not descend from this one."""

    def __init__(self, proc: Path = _PROC, agents: Sequence[int] = ()) -> None:
        self._proc = proc
        self._agents = agents
        self._begin = _State.now(proc, agents)

    def end(self, *, system_known: bool = True) -> MachineRow:
        """`system_known`: if not, processes of the system may be among those that are not the lab's."""
        begin, end = self._begin, _State.now(self._proc, self._agents)
        seconds, cores = end.seconds - begin.seconds, os.cpu_count() or 1
        steal = end.steal_seconds - begin.steal_seconds
        used = _used(begin.foreign, end.foreign) if system_known else {}
        foreign = max(0.0, sum(used.values())) if system_known else None
        busiest = max(used, key=used.__getitem__, default=0)
        name = end.foreign[busiest].name if foreign and busiest in end.foreign else ""
        waits = {key: _difference(begin.waits[key], end.waits[key]) for key in end.waits}
        return MachineRow(
            seconds=seconds, cores=cores, steal_seconds=steal, foreign_seconds=foreign, foreign_name=name,
            cpu_wait_seconds=waits["cpu"], memory_wait_seconds=waits["memory"], disk_wait_seconds=waits["io"],
            clock_hz=_clock_hz(), disturbed=why_disturbed(seconds * cores, steal, foreign or 0.0, name),
        )  # fmt: skip


def why_disturbed(processor_seconds: float, steal: float, foreign: float, name: str) -> str:
    """Empty if other work took at most MAX_TAKEN_SHARE of the processors."""
    if steal + foreign <= MAX_TAKEN_SHARE * processor_seconds:
        return ""
    taken = {"other virtual machines": steal, f"other processes ({name})" if name else "other processes": foreign}
    parts = [f"{who} took {seconds / processor_seconds:.0%}" for who, seconds in taken.items() if seconds > 0]
    return f"{' and '.join(parts)} of the processors"


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
            found[int(folder)] = _Process(head.partition("(")[2], int(fields[_PARENT]), cpu_seconds)
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


def _used(begin: Mapping[int, _Process], end: Mapping[int, _Process]) -> dict[int, float]:
    """CPU seconds of each process. Those of one that ended are in the count of its parent, as a difference."""
    pids = {*begin, *end}
    return {pid: _cpu_seconds(end, pid) - _cpu_seconds(begin, pid) for pid in pids}


def _cpu_seconds(processes: Mapping[int, _Process], pid: int) -> float:
    return processes[pid].cpu_seconds if pid in processes else 0.0


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
