"""What the lab needs of a system, whatever it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from mqlab.errors import MqlabError

FileUse = Literal["read", "write"]
Syncs = Literal["before confirming", "later", "never", "unknown"]


class SystemFailedError(MqlabError):
    """The system cannot be started, or has stopped."""


class SystemSettingError(MqlabError, ValueError):
    """There is no such system, or it has no such setting."""


@dataclass(frozen=True)
class Durability:
    """What a system's word is worth, with these settings. Only figures with the same worth can be compared."""

    # Whether a persistent message is synced to the disk before its send is confirmed.
    syncs: Syncs
    # In words: what must have happened when a persistent send is confirmed.
    persistent: str
    # In words: what must have happened when any other send is confirmed.
    confirmed: str
    # In words: when a received message is gone for good, and who says so.
    acknowledged: str
    # In words: how a reply finds its requester.
    replies: str


class System(ABC):
    """A system that can be started. Two of one kind with different settings are two systems."""

    name: ClassVar[str]
    # In words, for the list of systems.
    title: ClassVar[str]
    # The drivers that can talk to it; the first unless the setting `driver` names another one.
    drivers: ClassVar[tuple[str, ...]]
    # Features of `mqlab.study.FEATURES` that it has not, whatever the driver, each with the reason.
    lacks: ClassVar[Mapping[str, str]] = {}
    # Whether it compiles as it runs, as all that is of Java: how quick it is depends on how long it has been at work.
    compiles: ClassVar[bool] = False
    # Settings whose value is a path, and what the system does with that file.
    file_settings: ClassVar[Mapping[str, FileUse]] = {}
    # Whether a study may name it. Otherwise only the user can, on the command line.
    open_to_studies: ClassVar[bool] = True
    # By the name of a driver: what it lacks beside that with this one.
    lacks_with: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        # What it is called in every table, whatever a point changes of it.
        self.label = self.key

    @property
    def driver(self) -> str:
        return self.settings.get("driver", self.drivers[0])

    @property
    def jars(self) -> str:
        """Its library for the driver jms, as that names it; "" if there is none. There before it is started."""
        return ""

    @property
    def key(self) -> str:
        """Those with the same one are the same: what is up can be used again."""
        chosen = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{chosen}" if chosen else self.name

    def with_settings(self, settings: Mapping[str, str]) -> Self:
        """The same system, as a point wants it. Raises SystemSettingError."""
        if not settings:
            return self
        changed = type(self)({**self.settings, **settings})
        changed.label = self.label
        return changed

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """name, version, settings (all of them, not only the chosen), stamps (what every table must say of it)."""

    @abstractmethod
    def durability(self) -> Durability: ...

    @abstractmethod
    def missing(self) -> str:
        """Why it cannot be started here now, as a sentence; "" if it can."""

    @abstractmethod
    def install(self, say: Callable[[str], None]) -> None:
        """Gets it with the package clients of this machine; `say` tells of each step. Raises SystemFailedError."""

    def machine_packages(self) -> tuple[str, ...]:
        """The packages that `install` would add to the whole machine, for all of its users."""
        return ()

    @abstractmethod
    async def start(self, folder: Path) -> "Running":
        """Start it with its data under `folder`, and wait until it answers. Raises SystemFailedError."""

    async def host(self, folder: Path, name: str) -> "Hosted":
        """Start it inside this process, where clients find it as `bindings:NAME`. Raises SystemFailedError."""
        raise SystemFailedError(f"{self.name} cannot run inside another process ({name}, {folder.name})")

    async def attach(self, address: str, pid: int, folder: Path) -> "Running":
        """To one that another process hosts with its data under `folder`. Raises SystemFailedError."""
        raise SystemFailedError(f"{self.name} cannot be attached to ({address}, {pid}, {folder.name})")


class Running(ABC):
    """A system that was started. All that asks it something raises SystemFailedError if it is gone."""

    address: str
    # For the driver, beside the address.
    options: Mapping[str, str] = MappingProxyType({})
    # The process that has all others of it as descendants; None: it is not on this machine.
    pid: int | None = None
    # Bandwidth of the network link to it, in bits/s, if the user gives it.
    network_bits_per_s: float | None = None
    # Part of the name of every destination, where names of earlier runs of the lab may still be in use.
    tag: str = ""

    @abstractmethod
    async def sample(self) -> dict[str, Any]:
        """Columns of one row of `samples`, from cpu_seconds on; none if nothing is known of its processes."""

    @abstractmethod
    async def empty(self) -> bool:
        """Whether nothing of an earlier run is left in it."""

    async def depth(self, queue: str) -> int:
        """How many messages are on a queue."""
        raise SystemFailedError(f"the depth of {queue} cannot be asked")

    async def remove(self, queue: str) -> None:
        """The queue and what is on it; nobody uses it."""
        raise SystemFailedError(f"{queue} cannot be removed")

    async def link(self, to: str, address: str) -> None:
        """A channel to the broker of that name."""
        raise SystemFailedError(f"there can be no channel to {to} ({address})")

    async def unlink(self, to: str) -> None:
        """The channel is used no more."""
        raise SystemFailedError(f"there is no channel to {to}")

    async def operations(self) -> pa.Table | None:
        """What it traced since it was last asked: columns of `operations` without their run. None: it traces nothing.

        Once asked, none of it is left in the system.
        """
        return None

    @abstractmethod
    async def stop(self) -> None:
        """Stop it for certain; of one that another process hosts, let go of it."""


class Hosted(ABC):
    """A system inside this process."""

    # Where it can be asked from outside.
    address: str

    @abstractmethod
    async def close(self) -> None: ...
