"""The live log of a run folder: what a running lab does, line by line, for those who watch it.

Beside it lies the last sample of the brokers, the agents and the disk, in a file that is replaced every second.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from mqlab.events.schema import SampleRow
from mqlab.json_values import JsonObject

LIVE_FILE: Final = "live.jsonl"
USAGE_FILE: Final = "live-usage.json"
_USAGE_NS: Final = 1_000_000_000
# The kinds of lines: the first one, the progress of the runs, the pipeline, and the last one.
STARTED: Final = "started"
RUNS: Final = "runs"
MEASURES: Final = "measures"
ENDED: Final = "ended"


class LiveLog:
    """Appends a line for each step. It never disturbs the lab: a line that cannot be written is left out."""

    def __init__(self, folder: Path, title: str) -> None:
        self._path = folder / LIVE_FILE
        self._usage_path = folder / USAGE_FILE
        self._samples: dict[str, SampleRow] = {}
        self._before: dict[str, SampleRow] = {}
        self._written_ns = 0
        self.write(STARTED, pid=os.getpid(), title=title)

    def write(self, kind: str, **values: object) -> None:
        line = json.dumps({"kind": kind, "time": time.time(), **values}, separators=(",", ":"))
        with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def end(self) -> None:
        """Write the last line. The use of resources is that of a running lab."""
        self.write(ENDED)
        with suppress(OSError):
            self._usage_path.unlink(missing_ok=True)

    def observe(self, sample: SampleRow) -> None:
        """Keep the sample, and write the use of processors, memory and disk since the last file, once a second."""
        self._samples[sample.source] = sample
        if sample.t - self._written_ns < _USAGE_NS:
            return
        usage = {source: _usage(self._before.get(source), now) for source, now in self._samples.items()}
        self._before, self._samples, self._written_ns = self._samples, {}, sample.t
        unfinished = self._usage_path.with_name(f".{USAGE_FILE}.unfinished")
        with suppress(OSError):
            unfinished.write_text(json.dumps({"time": time.time(), "sources": usage}), encoding="utf-8")
            unfinished.replace(self._usage_path)


def _usage(before: SampleRow | None, now: SampleRow) -> JsonObject:
    """Shares of the time between two samples of a source; None without an earlier one."""
    seconds = (now.t - before.t) / _USAGE_NS if before and now.t > before.t else None
    usage: JsonObject = {"rss": now.rss, "depth": now.depth, "blocked": now.blocked}
    usage |= dict.fromkeys(("cpu", "busy", "written"))
    if before is not None and seconds:
        usage["cpu"] = max(0.0, (now.cpu_seconds - before.cpu_seconds) / seconds)
        if now.sync_seconds is not None and before.sync_seconds is not None:
            usage["busy"] = max(0.0, (now.sync_seconds - before.sync_seconds) / seconds)
        if now.bytes_written is not None and before.bytes_written is not None:
            usage["written"] = max(0.0, (now.bytes_written - before.bytes_written) / seconds)
    return usage


def read_usage(folder: Path) -> JsonObject:
    """The last use by source: `broker`, `agent-1`, `disk`, ...; {} if there is none."""
    try:
        usage = json.loads((folder / USAGE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return usage.get("sources", {}) if isinstance(usage, dict) else {}


def read_live(folder: Path, start: int = 0) -> tuple[list[JsonObject], int]:
    """The complete lines from a place in the log on, and the place after them; none without a log."""
    try:
        with (folder / LIVE_FILE).open("rb") as file:
            file.seek(start)
            added = file.read()
    except OSError:
        return [], start
    whole = added[: added.rfind(b"\n") + 1]
    lines = []
    for line in whole.splitlines():
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict) and "kind" in values:
            lines.append(values)
    return lines, start + len(whole)
