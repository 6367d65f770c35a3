"""`mqlab broker trace`: show and set trace levels, and write trace records to Parquet files."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.table import Table

from mqlab.broker.server.trace.reader import ActivityTraceReader
from mqlab.broker.server.trace.records import SCHEMA
from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import cell, plain, show_plain_json
from mqlab.cli.terminal.console import Exit, fail, say, show
from mqlab.json_values import JsonObject

# How often `--follow` checks for a signal.
_POLL_S: Final = 0.2
# Rows of a Parquet row group: smaller groups make the file larger and slower to read.
_ROW_GROUP: Final = 65_536


class TraceFile:
    """A Parquet file under the name FILE.partial until `finish` renames it, so that readers never see a part."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._partial = path.with_name(f"{path.name}.partial")
        self._writer = pq.ParquetWriter(self._partial, SCHEMA)
        self._tables: list[pa.Table] = []
        self._buffered_rows = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.rows += table.num_rows
        self._buffered_rows += table.num_rows
        if self._buffered_rows >= _ROW_GROUP:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        # The broker deletes the records after this, so they must be on disk.
        with self._partial.open("rb") as file:
            os.fsync(file.fileno())
        self._partial.rename(self.path)

    def discard(self) -> None:
        self._writer.close()
        self._partial.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._tables:
            self._writer.write_table(pa.concat_tables(self._tables).combine_chunks())
        self._tables, self._buffered_rows = [], 0


def numbered(path: Path, number: int) -> Path:
    """Return the path of the n-th file: `trace.parquet`, `trace-2.parquet`, ..."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")


class TraceLevel(StrEnum):
    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    DEFAULT = "default"


@broker_command
async def trace(
    broker: BrokerAdmin,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Move the records to this Parquet file.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until Ctrl-C and write a file per period.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="With --follow: the period of a file.")] = 60,
    level: Annotated[
        TraceLevel | None,
        typer.Option(
            help="Set the level of --application, or of all others; default takes an application's level back."
        ),
    ] = None,
    application: Annotated[str, typer.Option(metavar="NAME", help="Only this application: NAME or NAME*.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show or set the trace levels; with FILE, move the trace records from the broker to that file."""
    if level is None and application:
        fail("--application needs --level", Exit.USAGE)
    if level is TraceLevel.DEFAULT and not application:
        fail("--level default needs --application, whose level it takes back", Exit.USAGE)
    if file is None and follow:
        fail("--follow needs a FILE", Exit.USAGE)
    if level is not None:
        await broker.ask("trace", level=level.value, application=application)
    if file is not None:
        await _export(broker, file, every if follow else None, as_json)
        return
    response = await broker.ask("trace")
    if as_json:
        show_plain_json(response)
    else:
        _show(response)


async def _export(broker: BrokerAdmin, file: Path, every: float | None, as_json: bool) -> None:
    if file.exists():
        fail(plain(f"{file} already exists"), Exit.USAGE)
    reader = await ActivityTraceReader.open(broker.connection)
    files = [await _read_to(reader, file)] if every is None else await _follow(reader, file, every)
    await reader.close()
    rows = sum(trace_file.rows for trace_file in files)
    if as_json:
        names = [str(trace_file.path) for trace_file in files]
        dropped = reader.status["dropped"]
        show_plain_json({"records": rows, "files": names, "dropped": dropped, "unreadable": reader.unreadable})
        return
    say(plain(f"{rows:,} records in {', '.join(str(trace_file.path) for trace_file in files) or 'no file'}"))
    if reader.unreadable:
        say(f"{reader.unreadable:,} messages were not trace records")
    if reader.status["dropped"]:
        say(f"{reader.status['dropped']:,} trace messages were dropped since the start: the buffer was full")


async def _read_to(reader: ActivityTraceReader, path: Path) -> TraceFile:
    """Write the available records to a file; the broker deletes them when the file is complete."""
    file = _create(path)
    try:
        async for table in reader.tables():
            file.add(table)
        file.finish()
    except BaseException:
        file.discard()
        raise
    reader.done()
    return file


async def _follow(reader: ActivityTraceReader, path: Path, every: float) -> list[TraceFile]:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    files: list[TraceFile] = []
    while not stopped.is_set():
        file = _create(numbered(path, len(files) + 1))
        try:
            end = time.monotonic() + every
            while not stopped.is_set() and time.monotonic() < end:
                with suppress(TimeoutError):
                    table = await reader.next(_POLL_S)
                    if table is not None:
                        file.add(table)
            if not file.rows:
                file.discard()
                continue
            file.finish()
        except BaseException:
            file.discard()
            raise
        files.append(file)
        reader.done()
        say(plain(f"{file.rows:,} records in {file.path}"))
    return files


def _create(path: Path) -> TraceFile:
    try:
        return TraceFile(path)
    except OSError as error:
        fail(plain(f"{path} cannot be written: {error.strerror or error}"), Exit.USAGE)


def _show(response: JsonObject) -> None:
    table = Table("application", "level", "by", box=None)
    for source, rows in (("run time", response["said"]), ("file", response["stanzas"])):
        for row in rows:
            table.add_row(cell(row["application"]), cell(row["level"]), cell(source))
    table.add_row(cell("all others"), cell(response["level"]), cell("setting"))
    show(table)
    for row in response["applications"]:
        say(plain(f"{row['application'] or 'no name'}: {row['level']}, connections: {row['connections']}"))
    unread = f"{response['records']:,} records; {response['bytes']:,} bytes are unread"
    say(f"{unread}, {response['dropped']:,} trace messages were dropped")
