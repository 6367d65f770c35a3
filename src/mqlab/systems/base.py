"""What the lab needs of a system, whatever it is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa


class SystemFailedError(Exception):
    """The system cannot be started, or has stopped."""


class SystemSettingError(ValueError):
    """There is no such system, or it has no such setting."""


class System(ABC):
    """A system that can be started. Two of one kind with different settings are two systems."""

    name: str
    driver: str

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        # What it is called in every table, whatever a point changes of it.
        self.label = self.key

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
    async def start(self, folder: Path) -> "Running":
        """Start it with its data under `folder`, and wait until it answers. Raises SystemFailedError."""

    @abstractmethod
    async def host(self, folder: Path, name: str) -> "Hosted":
        """Start it inside this process, where clients find it as `bindings:NAME`. Raises SystemFailedError."""

    @abstractmethod
    async def attach(self, address: str, pid: int, folder: Path) -> "Running":
        """To one that another process hosts with its data under `folder`. Raises SystemFailedError."""


class Running(ABC):
    """A system that was started. All that asks it something raises SystemFailedError if it is gone."""

    address: str

    @abstractmethod
    async def sample(self) -> dict[str, Any]:
        """Columns of one row of `samples`, from cpu_seconds on."""

    @abstractmethod
    async def empty(self) -> bool:
        """Whether nothing of an earlier run is left in it."""

    @abstractmethod
    async def depth(self, queue: str) -> int:
        """How many messages are on a queue."""

    @abstractmethod
    async def remove(self, queue: str) -> None:
        """The queue and what is on it; nobody uses it."""

    @abstractmethod
    async def link(self, to: str, address: str) -> None:
        """A channel to the broker of that name."""

    @abstractmethod
    async def unlink(self, to: str) -> None:
        """The channel is used no more."""

    @abstractmethod
    async def operations(self) -> pa.Table | None:
        """What it traced since it was last asked: columns of `operations` without their run. None: it traces nothing.

        Once asked, none of it is left in the system.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Stop it for certain; of one that another process hosts, let go of it."""


class Hosted(ABC):
    """A system inside this process."""

    # Where it can be asked from outside.
    address: str

    @abstractmethod
    async def close(self) -> None: ...
