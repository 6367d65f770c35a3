"""`mqlab broker trace`: show and set trace levels, and write trace records to Parquet files."""

import asyncio
import signal
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from mqlab.broker.server.trace.reader import ActivityTraceReader
from mqlab.cli.broker.common.connection import AsJson, BrokerAdmin, broker_command
from mqlab.cli.broker.common.safe_output import cell, plain, show_plain_json
from mqlab.cli.broker.common.trace_files import TraceFile, numbered
from mqlab.cli.console import Exit, fail, say, show

# How often `--follow` checks for a signal.
_POLL_S: Final = 0.2


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


def _show(response: dict[str, Any]) -> None:
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
