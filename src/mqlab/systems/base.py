"""What the lab needs of a system, whatever it is."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any


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
        chosen = ",".join(f"{key}={value}" for key, value in settings.items())
        self.label = f"{self.name}:{chosen}" if chosen else self.name

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """name, version, settings (all of them, not only the chosen), stamps (what every table must say of it)."""

    @abstractmethod
    async def start(self, folder: Path) -> "Running":
        """Start it with its data under `folder`, and wait until it answers. Raises SystemFailedError."""


class Running(ABC):
    """A system that was started."""

    address: str

    @abstractmethod
    async def sample(self) -> dict[str, Any]:
        """Columns of one row of `samples`, from cpu_seconds on. Raises SystemFailedError if it is gone."""

    @abstractmethod
    async def empty(self) -> bool:
        """Whether nothing of an earlier run is left in it."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it for certain."""
