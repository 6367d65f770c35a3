"""The state of a run in progress: the live log of its lab, and the figures of the runs that have ended."""

from pathlib import Path
from typing import Final

import psutil

from mqlab.events.live import ENDED, LIVE_FILE, RUNS, STARTED, read_live, read_usage
from mqlab.json_values import JsonObject
from mqlab.serve.ended_runs import NOTHING_KNOWN, EndedRuns

# Finished runs that the live view shows, the last ones.
_MOST_RATES: Final = 400


class LiveView:
    """Reads each line of a live log once, however often it is asked. Without `ended` it has no percentiles."""

    def __init__(self, folder: Path, ended: EndedRuns | None = None) -> None:
        self._folder = folder
        self._ended = ended
        self._place = 0
        self._first: JsonObject = {}
        self._last: JsonObject = {}
        self._runs: JsonObject = {}
        self._rates: list[JsonObject] = []

    def state(self) -> JsonObject:
        """The last step of the lab, the figures of each finished run, and the use of resources."""
        self._read()
        is_live = self.process() is not None
        ended = self._ended.summary(self._folder) if self._ended is not None and is_live else NOTHING_KNOWN
        return {
            **self._runs, **self._last, "title": self._first.get("title", ""), "rates": self._rates[-_MOST_RATES:],
            "ended": ended, "usage": read_usage(self._folder), "live": is_live,
        }  # fmt: skip

    def process(self) -> psutil.Process | None:
        """The process of a lab that still works on this run folder."""
        self._read()
        if self._first.get("kind") != STARTED or self._last.get("kind") == ENDED:
            return None
        try:
            process = psutil.Process(int(self._first["pid"]))
            # A later process may have the same number.
            is_same = process.create_time() <= float(self._first["time"]) and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, KeyError, ValueError):
            return None
        return process if is_same else None

    def _read(self) -> None:
        lines, self._place = read_live(self._folder, self._place)
        for line in lines:
            if line["kind"] == STARTED:
                self._first, self._runs, self._rates = line, {}, []  # a resumed run has a lab of its own
            elif line["kind"] == RUNS:
                self._rates += line.pop("finished", [])
                self._runs = line
            self._last = line


def live_state(folder: Path, ended: EndedRuns | None = None) -> JsonObject:
    return LiveView(folder, ended).state()


def live_process(folder: Path) -> psutil.Process | None:
    return LiveView(folder).process() if (folder / LIVE_FILE).is_file() else None
