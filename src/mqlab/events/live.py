"""The live log of a run folder: what a running lab does, line by line, for those who watch it."""

import json
import os
import time
from pathlib import Path
from typing import Final

from mqlab.json_values import JsonObject

LIVE_FILE: Final = "live.jsonl"
# The kinds of lines: the first one, the progress of the runs, the pipeline, and the last one.
STARTED: Final = "started"
RUNS: Final = "runs"
MEASURES: Final = "measures"
ENDED: Final = "ended"


class LiveLog:
    """Appends a line for each step. It never disturbs the lab: a line that cannot be written is left out."""

    def __init__(self, folder: Path, title: str) -> None:
        self._path = folder / LIVE_FILE
        self.write(STARTED, pid=os.getpid(), title=title)

    def write(self, kind: str, **values: object) -> None:
        line = json.dumps({"kind": kind, "time": time.time(), **values}, separators=(",", ":"))
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError:
            pass


def read_live(folder: Path) -> list[JsonObject]:
    """The complete lines; [] without a log. The last line may be unfinished."""
    try:
        text = (folder / LIVE_FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    lines = []
    for line in text.splitlines(keepends=True):
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict) and "kind" in line]
