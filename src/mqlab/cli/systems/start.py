"""`mqlab systems start`: one system as the lab starts it, to be tried."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Annotated, Any, Final

import psutil
import typer
import uvloop

from mqlab.cli.console import Exit, fail, show_json
from mqlab.cli.systems.names import AsJson, Named, named
from mqlab.cli.systems.started import Started, all_started, data_of, forget
from mqlab.systems import Running, System, SystemFailedError
from mqlab.systems.external import External
from mqlab.systems.program import ProgramRunning

_POLL_SECONDS: Final = 0.05


def start_one(
    name: Named,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running; `mqlab systems stop` ends it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a system on free loopback ports with fresh data, print where it is, and stop it with Ctrl-C."""
    one = named(name)
    if isinstance(one, External):
        fail("external: it is not the lab's to start", Exit.USAGE)
    all_started()  # what a crash has left is in nobody's way
    try:
        if detach:
            _print(_detached(name), as_json)
        else:
            try:
                uvloop.run(_until_told(one, as_json))
            finally:
                forget(os.getpid())
    except (SystemFailedError, OSError) as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)


async def _until_told(one: System, as_json: bool) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told.set)
    starting = asyncio.ensure_future(one.start(data_of(os.getpid())))
    telling = asyncio.ensure_future(told.wait())
    await asyncio.wait((starting, telling), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError, SystemFailedError):
            await (await starting).stop()
        return
    telling.cancel()
    running = starting.result()
    note = _note(one, running)
    try:
        note.note()
        _print(note, as_json)
        while not told.is_set():
            await running.sample()  # raises when it has ended
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), 1.0)
    finally:
        await running.stop()


def _note(one: System, running: Running) -> Started:
    addresses, options = {one.driver: running.address}, {one.driver: dict(running.options)}
    if isinstance(running, ProgramRunning):
        addresses = dict(running.launch.addresses)
        options = {driver: dict(values) for driver, values in running.launch.options.items()}
    return Started(one.label, os.getpid(), psutil.Process().create_time(), addresses, options)


def _detached(name: str) -> Started:
    """In a process and a session of its own, once it is up."""
    # A file and no pipe: it can go on talking when nobody listens any more.
    with tempfile.TemporaryFile("w+") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "mqlab", "systems", "start", name], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=words, start_new_session=True,
        )  # fmt: skip
        while process.poll() is None:
            for one in all_started():
                if one.pid == process.pid:
                    return one
            time.sleep(_POLL_SECONDS)
        words.seek(0)
        said = words.read().strip().removeprefix("mqlab: ")
    raise SystemFailedError(said or f"{name} ended with code {process.returncode}")


def _print(note: Started, as_json: bool) -> None:
    shown: dict[str, Any] = note.shown()
    if as_json:
        show_json(shown)
    else:
        for driver, address in note.addresses.items():
            more = " ".join(f"{key}={value}" for key, value in note.options.get(driver, {}).items())
            print(f"{driver} {address} {more}".rstrip())
    sys.stdout.flush()
