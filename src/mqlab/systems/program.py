"""The base of systems that are programs: installs, starts, samples and stops a program under a supervisor."""

import asyncio
import random
import re
import shutil
import signal
import socket
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

import psutil

from mqlab.json_values import JsonObject
from mqlab.study.language.faults import FaultTarget
from mqlab.systems.api import LAB_SETTINGS, Running, System, SystemFailedError, SystemSettingError
from mqlab.systems.install.download import Part, install, machine_packages, missing, of_version
from mqlab.systems.supervise.supervised_process import SupervisedProcess

_STAMPS: Final = {"later": "confirms before it syncs", "never": "never syncs"}
_VERSION: Final = "version"
# It becomes part of a path and of the address of a download.
_VERSION_FORM: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}", re.ASCII)
_NONE: Final[Mapping[str, str]] = MappingProxyType({})
NO_SLOW_SYNCS: Final = "the lab can delay the syncs of the embedded broker only"
_POLL_SECONDS: Final = 0.05
# The longest time for one attempt to connect.
_ATTEMPT_SECONDS: Final = 5.0
# Below the ephemeral ports, so that no client gets a port before the system listens on it.
_PORTS: Final = range(20_000, 32_000)
# The latest ports: they are not used again for a while, since their system may not listen yet.
_reserved: Final[deque[int]] = deque(maxlen=1000)


@dataclass(frozen=True)
class Launch:
    """How a program is started, and where its clients connect."""

    # Of every start: also of one with the data of an earlier start.
    arguments: Sequence[str]
    # The ports that it listens on, by driver or purpose.
    ports: Mapping[str, int]
    # The addresses, by the name of the driver.
    addresses: Mapping[str, str]
    # In addition to the lab's own environment.
    environment: Mapping[str, str] = field(default_factory=dict)
    # The options of drivers, by the name of the driver.
    options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # The working directory; None: the folder of its data.
    directory: Path | None = None


class ProgramRunning(Running):
    def __init__(self, system: "Program", launch: Launch, process: SupervisedProcess, folder: Path) -> None:
        self.address = launch.addresses[system.driver]
        self.options = launch.options.get(system.driver, _NONE)
        self.pid = process.pid
        self.launch = launch
        self.system = system
        self._process = process
        self._folder = folder

    async def sample(self) -> JsonObject:
        self.check()
        try:
            usage = self._process.tree.usage()
        except psutil.Error as error:
            raise SystemFailedError(f"{self.system.name} cannot be sampled: {error}") from error
        return {
            "cpu_seconds": usage.cpu_seconds, "rss": usage.rss,
            "bytes_read": usage.bytes_read, "bytes_written": usage.bytes_written,
        }  # fmt: skip

    async def empty(self) -> bool:
        # Every run has its own destinations, and after an incomplete run the system is started anew.
        return not self._process.ended

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)

    async def shut_down(self) -> None:
        await self._process.stop()

    async def start_again(self) -> None:
        # Nothing of the former processes may be left: they hold the ports and the files.
        await self._process.stop()
        self._process = await self.system.run(self.launch, self._folder)
        self.pid = self._process.pid
        await self.system.wait_ready(self.launch, self._process)

    def suspend(self) -> None:
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)

    async def stop(self) -> None:
        await self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def check(self) -> None:
        """Raises SystemFailedError if it has ended."""
        if self._process.ended:
            raise SystemFailedError(_with_log(f"{self.system.name} is gone: {self._process.ended}", self._process))


class Program(System):
    """A subclass names the parts to install and the settings, and writes the configuration in `launch`."""

    lacks_faults: ClassVar[Mapping[FaultTarget, str]] = {"syncs": NO_SLOW_SYNCS}

    # The one that the lab was tried with; the setting `version` chooses another.
    version: str
    # What `install` installs.
    parts: tuple[Part, ...]
    # The settings that it has with every driver, with their defaults.
    defaults: ClassVar[Mapping[str, str]] = _NONE
    # Further settings that it has with one driver only, with their defaults, by the name of the driver.
    defaults_with: ClassVar[Mapping[str, Mapping[str, str]]] = MappingProxyType({})
    # The allowed values of settings that have only some.
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    # The longest time until it answers.
    start_seconds: ClassVar[float] = 60.0
    running_class: ClassVar[type[ProgramRunning]] = ProgramRunning

    def __init__(self, settings: dict[str, str]) -> None:
        allowed = {**self.choices, "driver": self.drivers}
        driver = settings.get("driver", self.drivers[0])
        self._defaults = {**self.defaults, **self.defaults_with.get(driver, _NONE)}
        known = (*LAB_SETTINGS, _VERSION, *self._defaults)
        for key, value in settings.items():
            if key not in known:
                names, where = ", ".join(known), f" with the driver {driver}" if self.defaults_with else ""
                raise SystemSettingError(f"{self.name} has no setting {key!r}{where}; it has: {names}")
            if key in allowed and value not in allowed[key]:
                raise SystemSettingError(f"{self.name}: {key}: {value!r} is none of {', '.join(allowed[key])}")
        super().__init__(settings)
        if _VERSION in settings:
            self._choose_version(settings[_VERSION])

    def _choose_version(self, version: str) -> None:
        if not _VERSION_FORM.fullmatch(version):
            raise SystemSettingError(f"{self.name}: version: {version[:80]!r} is not a version like {self.version}")
        parts = tuple(of_version(part, self.version, version) for part in self.parts)
        if parts == self.parts and version != self.version:
            raise SystemSettingError(
                f"{self.name}: version: the package manager of the machine has one version for all; start two yourself,"
                " and name them external:label=...,driver=...,address=..."
            )
        self.version, self.parts = version, parts

    @abstractmethod
    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        """Write the configuration under `folder`, which exists and is empty. Each call of `ports` gives a free port."""

    def chosen(self, key: str) -> str:
        """The value of a setting: the chosen one or the default."""
        return self.driver if key == "driver" else self.settings.get(key, self._defaults[key])

    def stamps(self) -> list[str]:
        """How its durability differs from that of a system that syncs before it confirms."""
        stamp = _STAMPS.get(self.durability().syncs)
        return [f"{stamp}: a power failure loses confirmed messages"] if stamp else []

    async def answers(self, launch: Launch) -> bool:
        """Whether clients can use it now. Override it if the program opens its ports before it is ready.

        OSError and EOFError mean no.
        """
        port = launch.ports.get(self.driver)
        for number in launch.ports.values() if port is None else (port,):
            _, writer = await asyncio.open_connection("127.0.0.1", number)
            writer.close()
            await writer.wait_closed()
        return True

    def describe(self) -> JsonObject:
        settings = {**self.lab_settings, **{key: self.chosen(key) for key in self._defaults}}
        return {"name": self.label, "version": self.version, "settings": settings, "stamps": self.stamps()}

    def missing(self) -> str:
        lacking = [reason for part in self.parts if (reason := missing(part))]
        if not lacking:
            return ""
        # Its version and its driver decide what is installed.
        return f"{self.key} is not installed ({', '.join(lacking)}): mqlab systems install {self.key}"

    def install(self, say: Callable[[str], None]) -> None:
        for part in self.parts:
            install(part, say)

    def machine_packages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in machine_packages(part)))

    async def start(self, folder: Path) -> Running:
        if reason := self.missing():
            raise SystemFailedError(reason)
        launch = self._configure(folder)
        process = await self.run(launch, folder)
        running = self.running_class(self, launch, process, folder)
        try:
            await self.wait_ready(launch, process)
        except BaseException:
            await asyncio.shield(running.stop())
            raise
        return running

    def _configure(self, folder: Path) -> Launch:
        try:
            folder.mkdir(parents=True)
            try:
                return self.launch(folder.absolute(), free_port)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise SystemFailedError(f"{self.name} cannot be set up: {error}") from error

    async def run(self, launch: Launch, folder: Path) -> SupervisedProcess:
        """Start its processes, for the first time or again with the data that is there."""
        return await SupervisedProcess.start(
            launch.arguments, folder.with_name(f"{folder.name}.log"), environment=launch.environment,
            directory=launch.directory or folder,
        )  # fmt: skip

    async def wait_ready(self, launch: Launch, process: SupervisedProcess) -> None:
        """Return when clients can connect. Raises SystemFailedError."""
        deadline = time.monotonic() + self.start_seconds
        last_error = ""
        while not process.ended:
            if time.monotonic() > deadline:
                detail = f" ({last_error})" if last_error else ""
                reason = f"{self.name} did not answer within {self.start_seconds:g} s{detail}"
                raise SystemFailedError(_with_log(reason, process))
            try:
                async with asyncio.timeout(min(_ATTEMPT_SECONDS, self.start_seconds)):
                    if await self.answers(launch):
                        return
            except (OSError, EOFError) as error:
                last_error = str(error)
            await asyncio.sleep(_POLL_SECONDS)
        raise SystemFailedError(_with_log(f"{self.name} did not start: {process.ended}", process))


def free_port() -> int:
    """A port of the loopback that no process listens on, and that no system got recently."""
    while True:
        port = random.choice(_PORTS)
        if port in _reserved:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _reserved.append(port)
        return port


def _with_log(reason: str, process: SupervisedProcess) -> str:
    tail = process.log_tail()
    return f"{reason}; its log ends: {tail}" if tail else f"{reason}; its log is empty"
