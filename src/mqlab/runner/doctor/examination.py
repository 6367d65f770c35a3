"""All checks of the machine: those that take a moment, and those that take some seconds."""

import time
from collections.abc import Iterator
from pathlib import Path

from mqlab.runner.doctor.disk import room_check, sync_check
from mqlab.runner.doctor.machine_finding import MachineFinding
from mqlab.runner.doctor.memory import memory_checks
from mqlab.runner.doctor.other_work import broker_check, load_check, noise_checks
from mqlab.runner.doctor.processor import processor_checks
from mqlab.runner.doctor.steady_speed import steady_speed_check
from mqlab.runner.noise import MachineWatch


def quick_findings(runs: Path, data: Path | None = None) -> Iterator[MachineFinding]:
    """Within a moment. `runs`: the folder of the run folders, or where it will be. `data`: that of the systems."""
    yield from processor_checks()
    yield from memory_checks()
    yield load_check()
    yield sync_check(existing(data or runs))
    yield room_check(existing(runs))
    yield broker_check()


def all_findings(runs: Path, seconds: float) -> Iterator[MachineFinding]:
    """`seconds`: how long the machine is watched."""
    watch = MachineWatch()
    time.sleep(seconds)
    yield from noise_checks(watch.end())
    yield steady_speed_check()
    yield from processor_checks()
    yield from memory_checks()
    yield sync_check(existing(runs))
    yield room_check(existing(runs))
    yield broker_check()


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    found = folder.resolve()
    return next(path for path in (found, *found.parents) if path.is_dir())
