"""`mqlab systems start`: start a system as the lab does, to try it."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Annotated, Final

import psutil
import typer
import uvloop

from mqlab.cli.systems.names import AsJson, SystemArgument, parse_or_fail
from mqlab.cli.systems.started import StartedSystem, data_folder, remove_files, running_systems
from mqlab.cli.terminal.console import Exit, fail, show_json
from mqlab.systems import Running, System, SystemFailedError
from mqlab.systems.external import External
from mqlab.systems.program import ProgramRunning

_POLL_SECONDS: Final = 0.05


def start_one(
    name: SystemArgument,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running; `mqlab systems stop` stops it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a system on free loopback ports with empty data and print its addresses. Ctrl-C stops it."""
    system = parse_or_fail(name)
    if isinstance(system, External):
        fail("external: the lab does not start this system", Exit.USAGE)
    running_systems()  # removes the data that a crash has left
    try:
        if detach:
            _print(_start_detached(name), as_json)
        else:
            try:
                uvloop.run(_run_until_signal(system, as_json))
            finally:
                remove_files(os.getpid())
    except (SystemFailedError, OSError) as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)


async def _run_until_signal(system: System, as_json: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stopped.set)
    starting = asyncio.ensure_future(system.start(data_folder(os.getpid())))
    signalled = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        with suppress(asyncio.CancelledError, SystemFailedError):
            await (await starting).stop()
        return
    signalled.cancel()
    running = starting.result()
    started = _started(system, running)
    try:
        started.save()
        _print(started, as_json)
        while not stopped.is_set():
            await running.sample()  # raises when the system has ended
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), 1.0)
    finally:
        await running.stop()


def _started(system: System, running: Running) -> StartedSystem:
    addresses, options = {system.driver: running.address}, {system.driver: dict(running.options)}
    if isinstance(running, ProgramRunning):
        addresses = dict(running.launch.addresses)
        options = {driver: dict(values) for driver, values in running.launch.options.items()}
    return StartedSystem(system.label, os.getpid(), psutil.Process().create_time(), addresses, options)


def _start_detached(name: str) -> StartedSystem:
    """Start the system from a new process in a new session, and return when it is running."""
    # A file instead of a pipe: the process may still write when this one has ended.
    with tempfile.TemporaryFile("w+") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "mqlab", "systems", "start", name], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True,
        )  # fmt: skip
        while process.poll() is None:
            for started in running_systems():
                if started.pid == process.pid:
                    return started
            time.sleep(_POLL_SECONDS)
        stderr.seek(0)
        message = stderr.read().strip().removeprefix("mqlab: ")
    raise SystemFailedError(message or f"{name} ended with code {process.returncode}")


def _print(started: StartedSystem, as_json: bool) -> None:
    if as_json:
        show_json(started.document())
    else:
        for driver, address in started.addresses.items():
            more = " ".join(f"{key}={value}" for key, value in started.options.get(driver, {}).items())
            print(f"{driver} {address} {more}".rstrip())
    sys.stdout.flush()
