"""Checks of the processors: what they may be used for, their frequency, and the clock."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqlab.runner.doctor.machine_finding import MachineFinding, Weight

_CPUS: Final = "sys/devices/system/cpu"
_CLOCK: Final = "sys/devices/system/clocksource/clocksource0/current_clocksource"
# Clock sources that a process reads without a system call.
_FAST_CLOCKS: Final = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
# Below this share of the highest frequency, an idle processor saves power.
_LOW_FREQUENCY: Final = 0.8
# A lab needs a processor for the system and one for the agents.
_FEWEST_CORES: Final = 2
_CLOCK_READS: Final = 1000


def processor_checks(root: Path = Path("/")) -> Iterator[MachineFinding]:
    """`root`: of the file system whose /proc and /sys are read."""
    yield _cores(root)
    yield _power_saving(root)
    yield _throttling(root)
    yield _clock(root)


def _cores(root: Path) -> MachineFinding:
    """The processors that this process may use: by its affinity, and by the quota of its container."""
    usable: float = len(os.sched_getaffinity(0))
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        usable = min(usable, int(quota) / int(period))
    measured = f"{usable:g} of {os.cpu_count()} usable"
    if quota.isdigit() and usable < (os.cpu_count() or 1):
        effect = "a container that has used up its quota stands still for the rest of each period"
        return MachineFinding("processors", "much", measured, effect, "start the container without a CPU limit")
    if usable < _FEWEST_CORES:
        effect = "system and agents take the processor from each other"
        return MachineFinding("processors", "some", measured, effect, "use a machine with two cores or more")
    return MachineFinding("processors", "fine", measured)


def _power_saving(root: Path) -> MachineFinding:
    supplies = root.glob("sys/class/power_supply/*/online")
    if any(_text(supply) == "0" and _text(supply.parent / "type") == "Mains" for supply in supplies):
        effect = "a laptop on its battery runs slower"
        return MachineFinding("power saving", "much", "on battery", effect, "connect it to the mains")
    folders = [*root.glob(f"{_CPUS}/cpu[0-9]*/cpufreq")]
    governors = sorted({_text(folder / "scaling_governor") for folder in folders} - {""})
    if not governors:
        return MachineFinding("power saving", "unknown", "the kernel shows no frequency, as in most virtual machines")
    shares = [share for folder in folders if (share := _frequency_share(folder)) is not None]
    share = min(shares, default=1.0)
    measured = f"governor {', '.join(governors)}, at {share:.0%} of the highest frequency"
    if governors == ["performance"]:
        return MachineFinding("power saving", "fine", measured)
    effect = "a system that is partly idle is measured on slower processors"
    weight: Weight = "some" if share >= _LOW_FREQUENCY else "much"
    return MachineFinding("power saving", weight, measured, effect, "cpupower frequency-set -g performance (as root)")


def _frequency_share(folder: Path) -> float | None:
    now, highest = _text(folder / "scaling_cur_freq"), _text(folder / "cpuinfo_max_freq")
    return int(now) / int(highest) if now.isdigit() and highest.isdigit() and int(highest) else None


def _throttling(root: Path) -> MachineFinding:
    counters = [_text(file) for file in root.glob(f"{_CPUS}/cpu[0-9]*/thermal_throttle/*_throttle_count")]
    counts = [int(text) for text in counters if text.isdigit()]
    stalls = dict(line.split() for line in _text(root / "sys/fs/cgroup/cpu.stat").splitlines() if " " in line)
    if (stalled := int(stalls.get("nr_throttled", 0))) > 0:
        effect = "the container stood still whenever its quota was used up"
        cure = "start the container without a CPU limit"
        return MachineFinding("throttling", "much", f"{stalled:,} periods by the container's quota", effect, cure)
    if not counts:
        return MachineFinding("throttling", "unknown", "the kernel does not count it, as in most virtual machines")
    if sum(counts):
        effect = "a hot processor slows down during long runs"
        cure = "cool the machine, and repeat when the count stands still"
        return MachineFinding("throttling", "some", f"{sum(counts):,} times by heat since the start", effect, cure)
    return MachineFinding("throttling", "fine", "never by heat")


def _clock(root: Path) -> MachineFinding:
    source, cost_ns = _text(root / _CLOCK), _clock_cost_ns()
    measured = f"{source or 'unknown source'}, {cost_ns:,.0f} ns a reading"
    if not source or source in _FAST_CLOCKS:
        return MachineFinding("clock", "fine" if source else "unknown", measured)
    effect = "every time stamp of a message costs a system call"
    cure = f"echo tsc > /{_CLOCK} (as root), or clocksource=tsc on the kernel's command line"
    return MachineFinding("clock", "some", measured, effect, cure)


def _clock_cost_ns() -> float:
    begin = time.perf_counter_ns()
    for _ in range(_CLOCK_READS):
        time.monotonic_ns()
    return (time.perf_counter_ns() - begin) / _CLOCK_READS


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
