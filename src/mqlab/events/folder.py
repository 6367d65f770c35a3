"""The run folder: where the records of one `mqlab run` lie, and how they are named."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from mqlab.errors import MqlabError
from mqlab.events.checksums import SUFFIX, file_name
from mqlab.events.schema import SCHEMA_VERSION, TABLES
from mqlab.regular_file import read_regular

# Some kilobytes a system, and a line for each point that a system cannot run.
_META_BYTES: Final = 64_000_000


class NotARunFolderError(MqlabError, ValueError):
    """The path holds no records of a run, or records this version cannot read."""


@dataclass(frozen=True)
class RunFolder:
    """`meta.json`, `study/` (the declaration as it was run), `events/`, `measures/`, `report/`."""

    path: Path

    @classmethod
    def create(cls, parent: Path, name: str, now: datetime | None = None) -> "RunFolder":
        """A new folder under `parent`; its id is the time and the (cleaned) name, made unique."""
        stamp = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
        base = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'run'}"
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{n}" for n in range(2, 100))):
            path = parent / (base + suffix)
            try:
                path.mkdir()
            except FileExistsError:
                continue
            folder = cls(path)
            for part in (folder.events, folder.measures, folder.report, folder.study):
                part.mkdir()
            return folder
        raise FileExistsError(f"{parent / base}: a hundred runs began in this second")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        folder = cls(path)
        if not folder.meta_file.exists():
            raise NotARunFolderError(f"{path}: not a run folder (it has no meta.json)")
        try:
            meta = folder.meta()
            found = meta.get("schema_version")
        except OSError as error:
            raise NotARunFolderError(f"{path}: its meta.json cannot be read: {error.strerror}") from error
        except (ValueError, AttributeError, RecursionError) as error:
            raise NotARunFolderError(f"{path}: its meta.json cannot be read ({error})") from error
        if found != SCHEMA_VERSION:
            raise NotARunFolderError(f"{path}: events of schema version {found}, this mqlab reads {SCHEMA_VERSION}")
        return folder

    @property
    def meta_file(self) -> Path:
        return self.path / "meta.json"

    @property
    def study(self) -> Path:
        return self.path / "study"

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def measures(self) -> Path:
        return self.path / "measures"

    @property
    def files(self) -> Path:
        """What systems write because the study wants it, such as traces. Made when it is needed."""
        return self.path / "files"

    @property
    def report(self) -> Path:
        return self.path / "report"

    def meta(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(read_regular(self.meta_file, _META_BYTES))
        return found

    def write_meta(self, meta: dict[str, Any]) -> None:
        """Replaces meta.json as a whole, so that an interruption leaves the old one."""
        text = json.dumps({"schema_version": SCHEMA_VERSION, **meta}, indent=2, sort_keys=False)
        temporary = self.meta_file.with_suffix(".new")
        temporary.write_text(text + "\n")
        temporary.replace(self.meta_file)

    def write_events(self, table: str, name: str, rows: pa.Table) -> None:
        """One Parquet file of one table. `name` tells its writer apart: files are never appended to.

        The checksum is that of the content in memory, so it also covers the way to the disk.
        """
        written = pa.BufferOutputStream()
        pq.write_table(rows.cast(TABLES[table]), written)
        content = memoryview(written.getvalue())
        folder = self.events / table
        folder.mkdir(exist_ok=True)
        # Whole or not at all: half a file would void its run. Spark passes over names with a dot.
        unfinished = folder / f".{name}.unfinished"
        unfinished.write_bytes(content)
        unfinished.replace(folder / file_name(name, content))

    def event_files(self, table: str) -> list[Path]:
        return sorted((self.events / table).glob(f"*{SUFFIX}"))
