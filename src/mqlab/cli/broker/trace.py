"""`mqlab broker trace`: whose operations are recorded, and the records in a Parquet file."""

import asyncio
import signal
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from mqlab.broker.server.trace.reader import TraceReader
from mqlab.cli.broker.connection import AsJson, Asked, over_the_wire
from mqlab.cli.broker.escaping import cell, plain, show_plain_json
from mqlab.cli.broker.trace_files import TraceFile, numbered
from mqlab.cli.console import Exit, fail, say, show

# How often it is looked whether somebody wants it to end.
_LOOK: Final = 0.2


class TraceLevel(StrEnum):
    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    DEFAULT = "default"


@over_the_wire
async def trace(
    broker: Asked,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Take the records there, as Parquet.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until Ctrl-C: a new file whenever one is finished.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="With --follow: what one file covers.")] = 60,
    level: Annotated[
        TraceLevel | None,
        typer.Option(help="Set the level of --application, or of all others; default: what it was without."),
    ] = None,
    application: Annotated[str, typer.Option(metavar="NAME", help="Of these alone: NAME, or NAME*.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show or set whose operations are recorded; with FILE, take what was recorded from the broker to that file."""
    if level is None and application:
        fail("--application says of whom; --level must say what", Exit.USAGE)
    if level is TraceLevel.DEFAULT and not application:
        fail("--level default takes back what was said of an --application", Exit.USAGE)
    if file is None and follow:
        fail("--follow needs a FILE", Exit.USAGE)
    if level is not None:
        await broker.ask("trace", level=level.value, application=application)
    if file is not None:
        await _take(broker, file, every if follow else None, as_json)
        return
    found = await broker.ask("trace")
    if as_json:
        show_plain_json(found)
    else:
        _show(found)


async def _take(broker: Asked, file: Path, every: float | None, as_json: bool) -> None:
    if file.exists():
        fail(plain(f"{file} is there already"), Exit.USAGE)
    reader = await TraceReader.open(broker.connection)
    files = [await _read_to(reader, file)] if every is None else await _follow(reader, file, every)
    await reader.close()
    rows = sum(one.rows for one in files)
    if as_json:
        names = [str(one.path) for one in files]
        dropped = reader.status["dropped"]
        show_plain_json({"records": rows, "files": names, "dropped": dropped, "unreadable": reader.unreadable})
        return
    where = ", ".join(str(one.path) for one in files) or "no file"
    say(plain(f"{rows:,} records in {where}"))
    if reader.unreadable:
        say(f"{reader.unreadable:,} messages were no records of a trace")
    if reader.status["dropped"]:
        say(f"{reader.status['dropped']:,} messages of records were dropped since the start, for nobody had read them")


async def _read_to(reader: TraceReader, path: Path) -> TraceFile:
    """What there is; the broker forgets it when the file is whole."""
    file = _begun(path)
    try:
        async for table in reader.tables():
            file.add(table)
        file.finish()
    except BaseException:
        file.give_up()
        raise
    reader.done()
    return file


async def _follow(reader: TraceReader, path: Path, every: float) -> list[TraceFile]:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    files: list[TraceFile] = []
    while not stopped.is_set():
        file = _begun(numbered(path, len(files) + 1))
        try:
            end = time.monotonic() + every
            while not stopped.is_set() and time.monotonic() < end:
                with suppress(TimeoutError):
                    table = await reader.next(_LOOK)
                    if table is not None:
                        file.add(table)
            if not file.rows:
                file.give_up()
                continue
            file.finish()
        except BaseException:
            file.give_up()
            raise
        files.append(file)
        reader.done()
        say(plain(f"{file.rows:,} records in {file.path}"))
    return files


def _begun(path: Path) -> TraceFile:
    try:
        return TraceFile(path)
    except OSError as error:
        fail(plain(f"{path} cannot be written: {error.strerror or error}"), Exit.USAGE)


def _show(found: dict[str, Any]) -> None:
    table = Table("application", "level", "by", box=None)
    for source, rows in (("run time", found["said"]), ("file", found["stanzas"])):
        for one in rows:
            table.add_row(cell(one["application"]), cell(one["level"]), cell(source))
    table.add_row(cell("all others"), cell(found["level"]), cell("setting"))
    show(table)
    for one in found["applications"]:
        say(plain(f"{one['application'] or 'no name'}: {one['level']}, connections: {one['connections']}"))
    waiting = f"{found['records']:,} records; {found['bytes']:,} bytes of them wait to be read"
    say(f"{waiting}, {found['dropped']:,} messages of them were dropped")
