"""Processes and open files that belong to one test, without those of other tests."""

import os
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
