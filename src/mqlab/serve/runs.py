"""The runs of a folder: a list in pages, which stays quick with thousands of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.events.live import LIVE_FILE
from mqlab.json_values import JsonObject
from mqlab.report.render.write import HTML_FILE
from mqlab.serve.live import live_process

PAGE_RUNS: Final = 50


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

    @property
    def words(self) -> str:
        """The text that a filter searches."""
        status = "in progress" if self.is_live else self.status
        return " ".join((self.id, self.study, self.title, self.scale, *self.systems, status)).lower()


@dataclass(frozen=True)
class RunPage:
    """One page of the runs that a filter finds. `live`: the runs in progress, on whatever page they are."""

    runs: Sequence[RunSummary]
    page: int
    pages: int
    found: int
    total: int
    live: Sequence[str]


class RunList:
    """The run folders in a folder, the latest first. A folder that has not changed is not read again."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self._known: dict[str, tuple[tuple[int, ...], RunSummary]] = {}

    def page(self, number: int = 1, text: str = "") -> RunPage:
        """The page of that number, or the last one, of the runs that have all words of the text."""
        runs, words = self.summaries(), text.lower().split()
        found = [run for run in runs if all(word in run.words for word in words)]
        pages = max(1, -(-len(found) // PAGE_RUNS))
        page = min(max(1, number), pages)
        shown = found[(page - 1) * PAGE_RUNS : page * PAGE_RUNS]
        return RunPage(shown, page, pages, len(found), len(runs), [run.id for run in runs if run.is_live])

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
        state = tuple(_changed_ns(file) for file in (meta, folder.report / HTML_FILE, meta.parent / LIVE_FILE))
        known = self._known.get(meta.parent.name)
        # Of a run in progress, the lab may end without a last line.
        if known is not None and known[0] == state and not known[1].is_live:
            return known[1]
        values: JsonObject = json.loads(meta.read_text(encoding="utf-8"))
        summary = RunSummary(
            meta.parent.name, str(values["study"]), str(values["title"]), str(values["scale"]), str(values["status"]),
            str(values["started"]), [str(system["name"]) for system in values["systems"]], state[1] > 0,
            live_process(folder.path) is not None,
        )  # fmt: skip
        self._known[meta.parent.name] = state, summary
        return summary


def _changed_ns(file: Path) -> int:
    """When the file changed; 0 if there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
