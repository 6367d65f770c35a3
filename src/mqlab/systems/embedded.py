"""The embedded broker, as a process of its own."""

import asyncio
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import psutil

from mqlab import __version__
from mqlab.broker.settings import SettingError, Settings
from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.systems.base import Running, System, SystemFailedError, SystemSettingError

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
# The lab's own business: where it listens, and where its data lies.
_NOT_CHOSEN = {"data", "listen", "open_to_network", "segment_size"}


class Embedded(System):
    name = "embedded"
    driver = "native"

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        known = {field.name: field for field in fields(Settings) if field.name not in _NOT_CHOSEN}
        values: dict[str, Any] = {}
        for key, text in settings.items():
            if key not in known:
                raise SystemSettingError(f"the embedded broker has no setting {key!r}; it has: {', '.join(known)}")
            values[key] = int(text) if text.isdecimal() else Path(text) if key == "file_trace" else text
        try:
            self._settings = Settings(**values)
        except SettingError as error:
            raise SystemSettingError(f"embedded: {error}") from error

    def describe(self) -> dict[str, Any]:
        chosen = self._settings
        stamps = []
        if chosen.sync == "off":
            stamps.append("sync off: a power failure loses confirmed messages")
        if chosen.disk_marks:
            stamps.append(f"imitated disk: syncs complete at {chosen.disk_marks} marks a second")
        shown = {field.name: getattr(chosen, field.name) for field in fields(Settings) if field.name not in _NOT_CHOSEN}
        shown["file_trace"] = str(shown["file_trace"]) if shown["file_trace"] else None
        return {"name": self.label, "version": f"mqlab {__version__}", "settings": shown, "stamps": stamps}

    async def start(self, folder: Path) -> Running:
        options = [f"--{key.replace('_', '-')}={value}" for key, value in self.settings.items()]
        log_file = folder.parent / f"{folder.name}.log"
        with log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mqlab", "broker", f"--data={folder}", "--listen=tcp:127.0.0.1:0", *options,
                stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            address = await _announced(process)
            control = await aio.connect(address)
        except (OSError, MessagingError) as error:
            await _end(process)
            said = log_file.read_text(errors="replace").strip().splitlines()
            raise SystemFailedError(f"the embedded broker did not start: {said[-1] if said else error}") from error
        except BaseException:
            # It has a session of its own, so Ctrl-C does not reach it.
            await asyncio.shield(_end(process))
            raise
        return _Running(address, process, control)


class _Running(Running):
    def __init__(self, address: str, process: asyncio.subprocess.Process, control: aio.Connection) -> None:
        self.address = address
        self._process = process
        self._control = control
        self._watched = psutil.Process(process.pid)

    async def sample(self) -> dict[str, Any]:
        try:
            status = await self._control.status()
            cpu, moved = self._watched.cpu_times(), self._watched.io_counters()
            rss = self._watched.memory_info().rss
        except (MessagingError, psutil.Error) as error:
            raise SystemFailedError(f"the embedded broker is gone: {error}") from error
        return {
            "cpu_seconds": cpu.user + cpu.system,
            "rss": rss,
            "syncs": status["syncs"],
            "sync_seconds": status["sync_seconds"],
            "bytes_read": moved.read_bytes,
            "bytes_written": moved.write_bytes,
            "depth": status["messages"],
            "blocked": status["held_producers"],
        }

    async def empty(self) -> bool:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return bool((await self._control.status())["messages"] == 0)
        except (MessagingError, TimeoutError):
            return False

    async def stop(self) -> None:
        with suppress(MessagingError):
            await self._control.close()
        await _end(self._process)


async def _announced(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)).decode().strip()
    except TimeoutError:
        raise OSError(f"it said nothing for {_START_SECONDS:g} s") from None
    if not line.startswith("listening on "):
        raise OSError(line or "it ended")
    return line.removeprefix("listening on ")


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
