"""What every system that is a program of its own shares: get it, start it under a keeper, wait, sample, stop."""

import asyncio
import random
import shutil
import socket
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final

import psutil

from mqlab.systems.api import Running, System, SystemFailedError, SystemSettingError
from mqlab.systems.install.download import Part, get, machine_packages, missing
from mqlab.systems.supervise.supervised_process import SupervisedProcess

_STAMPS: Final = {"later": "confirms before it syncs", "never": "never syncs"}
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_POLL_SECONDS: Final = 0.05
# One look at whether it answers takes no longer.
_LOOK_SECONDS: Final = 5.0
# Below those that the machine gives to clients, so that none of these takes a port before the system listens on it.
_PORTS: Final = range(20_000, 32_000)
# A port that was given is not given again until so many others were: the system may not listen yet.
_given: Final[deque[int]] = deque(maxlen=1000)


@dataclass(frozen=True)
class Launch:
    """How a system is started, and where its clients find it then."""

    arguments: Sequence[str]
    # Of each protocol it listens for.
    ports: Mapping[str, int]
    # By the name of the driver.
    addresses: Mapping[str, str]
    # On top of the lab's own.
    environment: Mapping[str, str] = field(default_factory=dict)
    # By the name of the driver: what it must know beside the address.
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    directory: Path | None = None


class ProgramRunning(Running):
    """`launch` is what it was started with."""

    def __init__(self, system: "Program", launch: Launch, kept: SupervisedProcess, folder: Path) -> None:
        self.address = launch.addresses[system.driver]
        self.options = launch.options.get(system.driver, _NONE)
        self.pid = kept.pid
        self.launch = launch
        self.system = system
        self._kept = kept
        self._folder = folder

    async def sample(self) -> dict[str, Any]:
        self.check()
        try:
            usage = self._kept.tree.usage()
        except psutil.Error as error:
            raise SystemFailedError(f"{self.system.name} cannot be looked at: {error}") from error
        return {
            "cpu_seconds": usage.cpu_seconds, "rss": usage.rss,
            "bytes_read": usage.bytes_read, "bytes_written": usage.bytes_written,
        }  # fmt: skip

    async def empty(self) -> bool:
        # Every run has destinations of its own, and after a broken one the system is started anew.
        return not self._kept.ended

    async def stop(self) -> None:
        await self._kept.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def check(self) -> None:
        """Raises SystemFailedError if it has ended."""
        if self._kept.ended:
            raise SystemFailedError(_with_log(f"{self.system.name} is gone: {self._kept.ended}", self._kept))


class Program(System):
    """A recipe says what it is made of, its settings, and how it is launched; the rest is here.

    Every setting has its default in `defaults`; `choices` are the allowed values of those that have only some.
    """

    version: ClassVar[str]
    parts: ClassVar[tuple[Part, ...]]
    defaults: ClassVar[Mapping[str, str]] = _NONE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    start_seconds: ClassVar[float] = 60.0
    running_class: ClassVar[type[ProgramRunning]] = ProgramRunning

    def __init__(self, settings: dict[str, str]) -> None:
        allowed = {**self.choices, "driver": self.drivers}
        for key, value in settings.items():
            if key != "driver" and key not in self.defaults:
                names = ", ".join(("driver", *self.defaults))
                raise SystemSettingError(f"{self.name} has no setting {key!r}; it has: {names}")
            if key in allowed and value not in allowed[key]:
                raise SystemSettingError(f"{self.name}: {key}: {value!r} is none of {', '.join(allowed[key])}")
        super().__init__(settings)

    @abstractmethod
    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        """Writes its configuration under `folder`, which is there and empty; each `ports()` is a free port."""

    def chosen(self, key: str) -> str:
        """What a setting is, chosen or not."""
        return self.driver if key == "driver" else self.settings.get(key, self.defaults[key])

    def stamps(self) -> list[str]:
        """What every table must say of it: by what its figures are not like those of one that syncs."""
        stamp = _STAMPS.get(self.durability().syncs)
        return [f"{stamp}: a power failure loses confirmed messages"] if stamp else []

    async def answers(self, launch: Launch) -> bool:
        """Whether clients can use it now. A recipe looks closer where a port that is open says too little."""
        port = launch.ports.get(self.driver)
        for one in launch.ports.values() if port is None else (port,):
            _, writer = await asyncio.open_connection("127.0.0.1", one)
            writer.close()
            await writer.wait_closed()
        return True

    def describe(self) -> dict[str, Any]:
        settings = {key: self.chosen(key) for key in ("driver", *self.defaults)}
        return {"name": self.label, "version": self.version, "settings": settings, "stamps": self.stamps()}

    def missing(self) -> str:
        lacking = [why for part in self.parts if (why := missing(part))]
        if not lacking:
            return ""
        return f"{self.name} is not installed ({', '.join(lacking)}): mqlab systems install {self.name}"

    def install(self, say: Callable[[str], None]) -> None:
        for part in self.parts:
            get(part, say)

    def machine_packages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in machine_packages(part)))

    async def start(self, folder: Path) -> Running:
        if why := self.missing():
            raise SystemFailedError(why)
        launch = self._set_up(folder)
        kept = await SupervisedProcess.start(
            launch.arguments, folder.with_name(f"{folder.name}.log"), environment=launch.environment,
            directory=launch.directory or folder,
        )  # fmt: skip
        running = self.running_class(self, launch, kept, folder)
        try:
            await self._wait(launch, kept)
        except BaseException:
            await asyncio.shield(running.stop())
            raise
        return running

    def _set_up(self, folder: Path) -> Launch:
        try:
            folder.mkdir(parents=True)
            try:
                return self.launch(folder.absolute(), free_port)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise SystemFailedError(f"{self.name} cannot be set up: {error}") from error

    async def _wait(self, launch: Launch, kept: SupervisedProcess) -> None:
        deadline = time.monotonic() + self.start_seconds
        said = ""
        while not kept.ended:
            if time.monotonic() > deadline:
                why = f"{self.name} did not answer within {self.start_seconds:g} s{said and f' ({said})'}"
                raise SystemFailedError(_with_log(why, kept))
            try:
                async with asyncio.timeout(min(_LOOK_SECONDS, self.start_seconds)):
                    if await self.answers(launch):
                        return
            except (OSError, EOFError) as error:
                said = str(error)
            await asyncio.sleep(_POLL_SECONDS)
        raise SystemFailedError(_with_log(f"{self.name} did not start: {kept.ended}", kept))


def free_port() -> int:
    """One of the loopback's that nobody uses, and that was not given just before."""
    while True:
        port = random.choice(_PORTS)
        if port in _given:
            continue
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.append(port)
        return port


def _with_log(why: str, kept: SupervisedProcess) -> str:
    tail = kept.tail()
    return f"{why}; its log ends: {tail}" if tail else f"{why}; it said nothing"
