"""Processes and open files that belong to one test, without those of other tests."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def commands_with(word: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return the running processes that have the word in their command line; a zombie has no command line."""
    matching = []
    for process in processes:
        with suppress(psutil.Error):
            if word in " ".join(process.cmdline()):
                matching.append(process)
    return matching


def descriptors_below(folder: Path) -> int:
    """Count the descriptors of this process that lead to files in the folder, removed files included."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(name.startswith(f"{folder}/") for name in names)


def freeze(*processes: psutil.Process) -> None:
    """Stop these processes. Returns when they stand still: on a busy machine threads run on after the signal."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    while not all(map(_is_stopped, processes)):
        time.sleep(0.001)


def _is_stopped(process: psutil.Process) -> bool:
    """Whether all threads of the process are."""
    try:
        stats = [stat.read_text() for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    except OSError:  # a thread has just ended
        return False
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}
