"""`mqlab broker check DIR`: check_store the data folder of a stopped broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from mqlab.broker.store.files.lock import FolderInUseError, FolderLock
from mqlab.broker.store.recovery.check import FileReport, StoreReport, check_store
from mqlab.cli.broker.common.connection import AsJson
from mqlab.cli.broker.common.safe_output import cell, plain, show_plain_json
from mqlab.cli.terminal.console import Exit, fail, say, show, table_of

_BAD: Final = ("damaged", "missing")


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The data folder of a stopped broker.")],
    as_json: AsJson = False,
) -> None:
    """Read every record of a data folder and report damage and contents. Nothing is changed.

    Exit code 0: the journal is sound, or ends in a torn tail, which no record proves to have been confirmed;
    3: damaged; 2: the folder has no journal.
    """
    try:
        with _locked(folder):
            examination = check_store(folder)
    except FolderInUseError as error:
        fail(
            plain(f"{error}; stop the broker first: records that it is writing would look torn"),
            Exit.SYSTEM_UNAVAILABLE,
        )
    except OSError as error:
        fail(plain(str(error)), Exit.USAGE)
    if not examination.files:
        fail(plain(f"{folder}: there is no journal in this folder"), Exit.USAGE)
    if as_json:
        show_plain_json(_document(examination))
    else:
        show(_files(examination.files))
        if examination.queues:
            show(_queues(examination))
    _report_verdict(folder, examination)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder against brokers, unless it has no lock file or this user cannot write to it."""
    try:
        lock = FolderLock(folder) if (folder / "lock").exists() else None
    except OSError:
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _report_verdict(folder: Path, examination: StoreReport) -> None:
    if xids := examination.prepared:
        say(plain(f"{len(xids)} prepared transactions wait for a decision: {', '.join(xids)}"))
    if examination.verdict == "damaged":
        bad = [f"{file.path.name} at byte {file.at:,} ({file.why})" for file in examination.files if file.state in _BAD]
        fail(plain(f"{folder} is damaged: {'; '.join(bad)}. A broker refuses to start with it"), Exit.AUDIT_FAILED)
    torn_bytes = sum(file.torn_bytes for file in examination.files)
    if torn_bytes:
        say(plain(f"{folder} is sound except for a torn tail of {torn_bytes:,} bytes, which a broker cuts off when it "
                  "starts; no record proves that they had been confirmed"))  # fmt: skip
    else:
        say(plain(f"{folder} is sound"))


def _files(files: list[FileReport]) -> Table:
    table = Table("file", "bytes", "records", "from", "to", "state", "why", box=None)
    for file in files:
        lsns = (file.first_lsn or None, file.last_lsn or None)
        table.add_row(*map(cell, (file.path.name, file.bytes, file.records, *lsns, file.state, file.why)))
    return table


def _queues(examination: StoreReport) -> Table:
    rows = (map(cell, (queue.name, queue.messages, queue.bytes)) for queue in examination.queues)
    return table_of(("queue or subscription", "messages", "bytes"), rows)


def _document(examination: StoreReport) -> dict[str, object]:
    files = [{**asdict(file), "path": str(file.path), "torn_bytes": file.torn_bytes} for file in examination.files]
    return {**asdict(examination), "files": files, "verdict": examination.verdict}
