"""The figures of the runs that have ended while their lab goes on, for those who watch it.

They are computed in a thread that yields the processor to the lab, one run at a time, the latest first.
"""

import os
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

import pyarrow as pa

from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.ended_run import PERCENTILES, EndedRunFigures, figures_of, runs_files
from mqlab.study.point import point_label

# How often a folder is searched for runs that have ended.
_SEARCH_SECONDS: Final = 1.0
# Of the runs that had ended before anybody watched, so many have figures, the last ones.
_MOST_EARLIER: Final = 40
_LOWEST_PRIORITY: Final = 19
NOTHING_KNOWN: Final[JsonObject] = {"latencies": [], "audited": 0, "faults": {}}


@dataclass
class _Folder:
    """The figures of each run, by the name of its file in the table `runs`, and what they say together."""

    searched: float = 0.0
    files: dict[int, Path] = field(default_factory=dict)
    figures: dict[str, list[EndedRunFigures]] = field(default_factory=dict)
    summed: int = -1
    summary: JsonObject = field(default_factory=lambda: NOTHING_KNOWN)


class EndedRuns:
    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "mqlab-figures", _yield_processor)
        self._lock = threading.Lock()
        self._folders: dict[Path, _Folder] = {}
        self._counting: Future[None] | None = None

    def summary(self, path: Path) -> JsonObject:
        """The figures of a folder so far, as `summary_of` has them."""
        with self._lock:
            known = self._folders.setdefault(path, _Folder())
            is_idle = self._counting is None or self._counting.done()
            if is_idle and time.monotonic() - known.searched >= _SEARCH_SECONDS:
                self._search(RunFolder(path), known)
            if known.summed != len(known.figures):
                known.summed = len(known.figures)
                names = [file.name for _, file in sorted(known.files.items())]
                known.summary = summary_of([row for name in names for row in known.figures.get(name, [])])
            return known.summary

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _search(self, folder: RunFolder, known: _Folder) -> None:
        if not known.files:
            earlier = sorted(runs_files(folder).items())[:-_MOST_EARLIER]
            known.figures |= {file.name: [] for _, file in earlier}
        known.files = runs_files(folder)
        new = [run for run, file in known.files.items() if file.name not in known.figures]
        if new:
            self._counting = self._thread.submit(_count, folder, max(new), known.files[max(new)].name, known.figures)
        else:
            known.searched = time.monotonic()


def summary_of(rows: list[EndedRunFigures]) -> JsonObject:
    """By system and point the mean of each percentile over its runs, in seconds; and the faults of the audited runs."""
    points: dict[tuple[str, str], list[EndedRunFigures]] = {}
    faults: dict[str, int] = {}
    audited = [row for row in rows if row.faults is not None]
    for row in rows:
        points.setdefault((row.system, point_label(row.scenario, row.point)), []).append(row)
    for name, messages in ((name, count) for row in audited for name, count in (row.faults or {}).items()):
        faults[name] = faults.get(name, 0) + messages
    latencies = [
        {"system": system, "point": label, **{name: _mean(name, of_point) for name in PERCENTILES}}
        for (system, label), of_point in points.items()
    ]
    return {"latencies": latencies, "audited": len(audited), "faults": faults}


def _mean(name: str, rows: list[EndedRunFigures]) -> float | None:
    known = [value for row in rows if (value := row.percentiles[name]) is not None]
    return fmean(known) if known else None


def _count(folder: RunFolder, run: int, name: str, figures: dict[str, list[EndedRunFigures]]) -> None:
    rows: list[EndedRunFigures] = []
    # When the runs are over, their files are compacted; the figures of the pipeline follow soon.
    with suppress(OSError, pa.ArrowException):
        rows = figures_of(folder, run)
    figures[name] = rows


def _yield_processor() -> None:
    """On Linux each thread has a priority of its own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
