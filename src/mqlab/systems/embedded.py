"""The embedded broker, as a process of its own."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psutil

from mqlab import __version__
from mqlab.broker.config import parse_value
from mqlab.broker.settings import POLICY_FIELDS, SETTING_NAMES, SettingError, Settings
from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.systems.base import Running, System, SystemFailedError, SystemSettingError

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_ANSWER_SECONDS = 10.0
# The lab's own business: where it listens and for whom, and where its data lies. Rules by pattern are for other names
# than the lab's.
_NOT_CHOSEN: Final = frozenset(
    ("data", "name", "listen", "open_to_network", "users", "tls_certificate", "tls_key", "metrics", "policies")
)
_CHOSEN: Final = tuple(name for name in SETTING_NAMES if name not in _NOT_CHOSEN)


class Embedded(System):
    name = "embedded"
    driver = "native"

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        self._values = {key: _value(key, text) for key, text in settings.items()}
        try:
            self._settings = Settings.flat(**self._values)
        except SettingError as error:
            raise SystemSettingError(f"embedded: {error}") from error

    def describe(self) -> dict[str, Any]:
        own, policy = self._settings, self._settings.policy
        shown = {name: getattr(policy if name in POLICY_FIELDS else own, name) for name in _CHOSEN}
        shown = {name: str(value) if isinstance(value, Path) else value for name, value in shown.items()}
        return {"name": self.label, "version": f"mqlab {__version__}", "settings": shown, "stamps": _stamps(own)}

    async def start(self, folder: Path) -> Running:
        options = [_option(key, value) for key, value in self._values.items()]
        log_file = folder.parent / f"{folder.name}.log"
        with log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "mqlab", "broker", f"--data={folder}", "--listen=tcp:127.0.0.1:0", *options,
                stdout=asyncio.subprocess.PIPE, stderr=log, start_new_session=True, env=_environment(),
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


def _value(key: str, text: str) -> Any:
    if key not in _CHOSEN:
        raise SystemSettingError(f"the embedded broker has no setting {key!r}; it has: {', '.join(_CHOSEN)}")
    try:
        return parse_value(key, text)
    except SettingError as error:
        raise SystemSettingError(f"embedded: {key}: {error}") from error


def _option(key: str, value: Any) -> str:
    words = key.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    return f"--{words}={'none' if value in (None, '') else value}"


def _stamps(chosen: Settings) -> list[str]:
    """What changes the meaning of a figure."""
    stamps = []
    if chosen.sync == "off":
        stamps.append("sync off: a power failure loses confirmed messages")
    if chosen.disk_marks:
        stamps.append(f"imitated disk: syncs complete at {chosen.disk_marks} marks a second")
    if chosen.policy.when_full == "drop-oldest":
        stamps.append("drop-oldest: a subscription that is full loses messages")
    if chosen.policy.retrieval == "scan":
        stamps.append("retrieval by scan: a receive by id costs by the depth of the queue")
    return stamps


def _environment() -> dict[str, str]:
    """Without settings of a broker: what is measured is what the run's record says, and nothing else."""
    return {key: value for key, value in os.environ.items() if not key.startswith("MQLAB_BROKER_")}


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
            "holds": status["holds"],
            "held_seconds": status["held_ms"] / 1000,
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
