"""`mqlab broker check DIR`: a data folder examined while no broker uses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from mqlab.broker.store.files.lock import FolderInUseError, FolderLock
from mqlab.broker.store.recovery.check import Examination, FileReport, examine
from mqlab.cli.broker.connection import AsJson
from mqlab.cli.broker.escaping import cell, plain, show_plain_json
from mqlab.cli.console import Exit, fail, say, show

_BAD: Final = ("damaged", "missing")


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data folder of a broker that does not run.")],
    as_json: AsJson = False,
) -> None:
    """Examine a data folder, and change nothing: can every record be read, and what is in it?

    Exit code 0: sound, or with a torn tail that was never confirmed; 3: damaged; 2: there is no journal.
    """
    try:
        with _unused(folder):
            found = examine(folder)
    except FolderInUseError as error:
        fail(plain(f"{error}; stop it first, else what it writes meanwhile looks torn"), Exit.SYSTEM_UNAVAILABLE)
    except OSError as error:
        fail(plain(str(error)), Exit.USAGE)
    if not found.files:
        fail(plain(f"{folder}: there is no journal in this folder"), Exit.USAGE)
    if as_json:
        show_plain_json(_document(found))
    else:
        show(_files(found.files))
        if found.queues:
            show(_queues(found))
    _tell(folder, found)


@contextmanager
def _unused(folder: Path) -> Iterator[None]:
    """Keeps brokers out, where one has been; a folder that cannot be written to has none."""
    try:
        lock = FolderLock(folder) if (folder / "lock").exists() else None
    except OSError:
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _tell(folder: Path, found: Examination) -> None:
    if found.prepared:
        say(plain(f"{len(found.prepared)} prepared transactions wait for a decision: {', '.join(found.prepared)}"))
    if found.verdict == "damaged":
        bad = [f"{one.path.name} at byte {one.at:,} ({one.why})" for one in found.files if one.state in _BAD]
        fail(plain(f"{folder} is damaged: {'; '.join(bad)}. A broker will not start with it"), Exit.AUDIT_FAILED)
    torn = sum(one.torn_bytes for one in found.files)
    if torn:
        say(plain(f"{folder} is sound but for a torn tail of {torn:,} bytes that were never confirmed; "
                  "a broker cuts them off when it starts"))  # fmt: skip
    else:
        say(plain(f"{folder} is sound"))


def _files(files: list[FileReport]) -> Table:
    table = Table("file", "bytes", "records", "from", "to", "state", "why", box=None)
    for one in files:
        cells = (one.path.name, one.bytes, one.records, one.first_lsn or None, one.last_lsn or None, one.state, one.why)
        table.add_row(*map(cell, cells))
    return table


def _queues(found: Examination) -> Table:
    table = Table("queue or subscription", "messages", "bytes", box=None)
    for one in found.queues:
        table.add_row(cell(one.name), cell(one.messages), cell(one.bytes))
    return table


def _document(found: Examination) -> dict[str, Any]:
    files = [{**asdict(one), "path": str(one.path), "torn_bytes": one.torn_bytes} for one in found.files]
    return {**asdict(found), "files": files, "verdict": found.verdict}
