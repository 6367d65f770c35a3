"""What a test has open or running, and nothing of what others before it have left."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def commands_with(word: str, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of them with the word in their command line; one that has ended has none, whoever may still wait for it."""
    found = []
    for one in processes:
        with suppress(psutil.Error):
            if word in " ".join(one.cmdline()):
                found.append(one)
    return found


def descriptors_below(folder: Path) -> int:
    """How many descriptors of this process lead to files there, be they removed or not."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(name.startswith(f"{folder}/") for name in names)
