"""The runs of a folder, and the state of one that is in progress."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from mqlab.events.folder import RunFolder
from mqlab.events.live import ENDED, LIVE_FILE, RUNS, STARTED, read_live
from mqlab.json_values import JsonObject
from mqlab.report.render.write import HTML_FILE

# Finished runs that the live view shows, the last ones.
_MOST_RATES: Final = 400


@dataclass(frozen=True)
class RunSummary:
    id: str
    study: str
    title: str
    scale: str
    status: str
    started: str
    systems: Sequence[str]
    has_report: bool
    is_live: bool


class RunList:
    """The run folders in a folder, the latest first. A folder that has not changed is not read again."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._known: dict[str, tuple[tuple[int, bool], RunSummary]] = {}

    def summaries(self) -> list[RunSummary]:
        found = []
        for meta in self.parent.glob("*/meta.json") if self.parent.is_dir() else ():
            try:
                found.append(self._summary(meta))
            except (OSError, ValueError, AttributeError, KeyError, TypeError):
                continue  # not a run folder of this version, or one that is just being written
        return sorted(found, key=lambda run: run.id, reverse=True)

    def folder(self, name: str) -> RunFolder | None:
        """The run folder of that name; None if there is none, or the name leads elsewhere."""
        path = self.parent / name
        is_inside = bool(name) and Path(name).name == name and name not in (".", "..")
        return RunFolder(path) if is_inside and (path / "meta.json").is_file() else None

    def _summary(self, meta: Path) -> RunSummary:
        folder = RunFolder(meta.parent)
        live = live_process(folder.path) is not None
        has_report = (folder.report / HTML_FILE).is_file()
        state = (meta.stat().st_mtime_ns, has_report)
        known = self._known.get(meta.parent.name)
        if known is not None and known[0] == state and known[1].is_live == live:
            return known[1]
        values: JsonObject = json.loads(meta.read_text(encoding="utf-8"))
        summary = RunSummary(
            meta.parent.name, str(values["study"]), str(values["title"]), str(values["scale"]), str(values["status"]),
            str(values["started"]), [str(system["name"]) for system in values["systems"]], has_report, live,
        )  # fmt: skip
        self._known[meta.parent.name] = state, summary
        return summary


def live_process(folder: Path) -> psutil.Process | None:
    """The process of a lab that still works on this run folder."""
    if not (folder / LIVE_FILE).is_file():
        return None
    lines = read_live(folder)
    if not lines or lines[0]["kind"] != STARTED or lines[-1]["kind"] == ENDED:
        return None
    try:
        process = psutil.Process(int(lines[0]["pid"]))
        # A later process may have the same number.
        is_same = process.create_time() <= float(lines[0]["time"]) and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, KeyError, ValueError):
        return None
    return process if is_same else None


def live_state(folder: Path) -> JsonObject:
    """The last step of the lab, and the rate of each finished run by its point."""
    lines = read_live(folder)
    rates: list[JsonObject] = []
    before: JsonObject = {}
    for line in (line for line in lines if line["kind"] == RUNS):
        if before and line.get("runs_done", 0) > before.get("runs_done", 0) and line.get("rate") is not None:
            rates.append({"point": before.get("label", ""), "rate": line["rate"]})
        before = line
    last = lines[-1] if lines else {}
    title = lines[0].get("title", "") if lines else ""
    return {**before, **last, "title": title, "rates": rates[-_MOST_RATES:], "live": live_process(folder) is not None}
