"""The contract of a system under test: how the lab installs, starts, samples and stops it.

To add a system, write a subclass of `System` and one of `Running`, and register the first by an entry point of the
group `mqlab.systems`. A system that is a program on this machine is easier: subclass `mqlab.systems.program.Program`,
which does all but describe and configure the program. `mqlab conformance NAME` checks the result. How messages get to
a system is the driver's part (`mqlab.drivers.api`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Literal, NamedTuple, Self

import pyarrow as pa

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.study import Point
from mqlab.study.language.faults import FaultTarget
from mqlab.study.self_comparison import twin_of

# The most records in one message. A message with all of them has at most the largest body of a study.
MAX_PACKED: Final = 1_000_000
# Settings that every system has: they say how the lab talks to it.
LAB_SETTINGS: Final = ("driver", "packed")
FileUse = Literal["read", "write"]
_NOT_STARTED: Final = "the lab did not start it"
Syncs = Literal["before confirming", "later", "never", "unknown"]


class SystemFailedError(MqlabError):
    """The system cannot be started, does not answer, or has ended."""


class SystemSettingError(MqlabError):
    """The lab does not know the system, or the system does not have the setting or value."""


@dataclass(frozen=True)
class Durability:
    """Durability of confirmations, with the settings of the system. Reports show it beside the system's figures.

    Only figures of systems with the same durability can be compared. All but `syncs` are phrases for the reader.
    """

    # Whether the system syncs a persistent message to the disk before it confirms the send.
    syncs: Syncs
    # Where a persistent message is when the system confirms its send.
    persistent: str
    # Where a non-persistent message is when the system confirms its send.
    confirmed: str
    # When the system removes a received message for good.
    acknowledged: str
    # How a reply gets to its requester.
    replies: str


class SwitchMoments(NamedTuple):
    """When the lab asked for other settings, and when the system had confirmed them, in ns of the monotonic clock."""

    asked: int
    confirmed: int


class System(ABC):
    """A system that the lab can start. The same system with other settings is another instance."""

    # The name on the command line and in studies.
    name: ClassVar[str]
    # The product's name, for the list of systems.
    title: ClassVar[str]
    # The names of its drivers. The first is the default; the setting `driver` selects another. Every system also has
    # the setting `packed`.
    drivers: ClassVar[tuple[str, ...]]
    # Features of `mqlab.study.FEATURES` that it lacks with every driver, each with the reason. The lab does not run
    # points that need them.
    lacks: ClassVar[Mapping[str, str]] = {}
    # Further features that it lacks with one driver, by the name of the driver.
    lacks_with: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    # The targets of faults that the lab does not control, each with the reason.
    lacks_faults: ClassVar[Mapping[FaultTarget, str]] = dict.fromkeys(("process", "disk", "syncs"), _NOT_STARTED)
    # Whether it or its client library has a just-in-time compiler, as all in Java have: the lab warms it up before runs
    # that count.
    compiles: bool = False
    # Settings whose value is a path, and whether the system reads or writes that file.
    file_settings: ClassVar[Mapping[str, FileUse]] = {}
    # Settings that it can change while it runs (`Running.switch`).
    live_settings: ClassVar[tuple[str, ...]] = ()
    # Whether a study may name it. If not, only the user can, on the command line.
    open_to_studies: ClassVar[bool] = True
    # The targets of faults that it is started ready for: "disk", a disk of its own, and "syncs", which can be delayed.
    ready_for: frozenset[FaultTarget] = frozenset()

    def __init__(self, settings: dict[str, str]) -> None:
        """`settings` are those that the user or a study chose. Raises SystemSettingError."""
        text = settings.get("packed")
        if text is not None and not (text.isascii() and text.isdigit() and 2 <= int(text) <= MAX_PACKED):
            raise SystemSettingError(
                f"{self.name}: packed: {text[:80]!r} is not a number of records from 2 to {MAX_PACKED}; without packed,"
                " messages travel message by message"
            )
        self.settings = settings
        # The name in tables and reports. It stays the same when a point changes settings.
        self.label = self.key

    @property
    def driver(self) -> str:
        return self.settings.get("driver", self.drivers[0])

    @property
    def packed(self) -> int:
        """Records that the lab packs into each message, by the setting `packed`; 1: it sends message by message."""
        return int(self.settings.get("packed", 1))

    @property
    def lab_settings(self) -> dict[str, str]:
        """The driver, and `packed` if it is set: for `describe`."""
        return {"driver": self.driver, **{key: self.settings[key] for key in ("packed",) if key in self.settings}}

    @property
    def jars(self) -> str:
        """The class path of its JMS client, for the driver `jms`; "" if it has none. Needed before it is started."""
        return ""

    @property
    def key(self) -> str:
        """`NAME:setting=value,...`. The lab uses a running system again for a system with the same key."""
        chosen = ",".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.name}:{chosen}" if chosen else self.name

    def with_settings(self, settings: Mapping[str, str]) -> Self:
        """The same system with the additional settings of a point. Raises SystemSettingError."""
        if not settings:
            return self
        changed = type(self)({**self.settings, **settings})
        changed.label = self.label
        return changed

    def for_point(self, point: Point, settings: Mapping[str, str]) -> Self:
        """The system as it runs a point: with the point's settings, and with what the lab adds to them."""
        del point
        return self.with_settings(settings)

    def made_ready_for(self, targets: frozenset[FaultTarget]) -> Self:
        """The same system, started ready for faults of these targets."""
        ready = copy(self)
        ready.ready_for = targets
        return ready

    def for_switching(self) -> Self:
        """The same system, to be started so that its live settings can be switched. Only if it has some."""
        return self

    def again(self) -> Self:
        """The same system under a second name, to compare it with itself."""
        twin = copy(self)
        twin.label = twin_of(self.label)
        return twin

    @abstractmethod
    def describe(self) -> JsonObject:
        """The system's part of meta.json, with these keys.

        `name`: the label. `version`. `settings`: all of them, with defaults. `stamps`: sentences that reports must show
        wherever they show figures of the system, such as "never syncs: a power failure loses confirmed messages".
        """

    @abstractmethod
    def durability(self) -> Durability:
        """The durability of its confirmations, with its settings and its driver."""

    @abstractmethod
    def missing(self) -> str:
        """Why it cannot be started on this machine now, as a sentence; "" if it can."""

    @abstractmethod
    def install(self, say: Callable[[str], None]) -> None:
        """Install it with the package managers of this machine. Call `say` with a line before each step.

        Raises SystemFailedError.
        """

    def machine_packages(self) -> tuple[str, ...]:
        """The packages that `install` would add for all users of the machine. The CLI shows them before."""
        return ()

    @abstractmethod
    async def start(self, folder: Path) -> "Running":
        """Start it with its data under `folder`, and return when clients can connect.

        `folder` does not exist yet. The system must listen on 127.0.0.1 only, on free ports. Raises SystemFailedError;
        then nothing of the system may be left running.
        """

    async def host(self, folder: Path, name: str) -> "Hosted":
        """Start it in this process, with its data under `folder`: clients here connect to `bindings:NAME`.

        Only for systems that are Python libraries; others keep this default. Raises SystemFailedError.
        """
        raise SystemFailedError(f"{self.name} cannot run inside another process ({name}, {folder.name})")

    async def attach(self, address: str, pid: int, folder: Path) -> "Running":
        """A handle on a system that another process hosts (`host`) with its data under `folder`.

        Raises SystemFailedError.
        """
        raise SystemFailedError(f"{self.name} cannot be attached to ({address}, {pid}, {folder.name})")


class OwnDisk(ABC):
    """A disk with nothing on it but the data of one system. All methods raise SystemFailedError."""

    @abstractmethod
    async def fill(self) -> None:
        """Leave no space on it until `free`, also when the system removes files."""

    @abstractmethod
    async def free(self) -> None:
        """Give the space back."""

    @abstractmethod
    async def remove(self) -> None:
        """Remove it with all that is on it. The system has ended."""


class Running(ABC):
    """A running system. All methods but `empty` and `stop` raise SystemFailedError if it has ended or fails.

    Names of queues have the form `queue:NAME`, those of durable subscriptions `subscription:NAME`.
    """

    # The address that the driver connects to.
    address: str
    # Options of the driver.
    options: Mapping[str, str] = MappingProxyType({})
    # The root of its process tree; None if it is not on this machine.
    pid: int | None = None
    # The bandwidth of the network link to it, in bits/s, if the user gives it.
    network_bits_per_s: float | None = None
    # A part of the names of all destinations. It must be unique if earlier runs may have left destinations.
    tag: str = ""
    # The disk of its data, if the system is `ready_for` faults of it.
    disk: OwnDisk | None = None

    @abstractmethod
    async def sample(self) -> JsonObject:
        """Columns of `mqlab.events.schema.SampleRow` from `cpu_seconds` on; {} for a system on another machine.

        The runner calls it several times a second, so it must be quick.
        """

    @abstractmethod
    async def empty(self) -> bool:
        """Whether it runs and has no messages of an earlier run. If not, the runner starts it anew."""

    async def depth(self, queue: str) -> int:
        """The number of messages on a queue or durable subscription. Without it, `System.lacks` has "depth"."""
        raise SystemFailedError(f"the depth of {queue} cannot be asked")

    async def remove(self, queue: str) -> None:
        """Delete a queue and its messages. No client uses it."""
        raise SystemFailedError(f"{queue} cannot be removed")

    async def link(self, to: str, address: str) -> None:
        """Add a channel to the broker with this name and address."""
        raise SystemFailedError(f"there can be no channel to {to} ({address})")

    async def unlink(self, to: str) -> None:
        """Stop the channel to the broker with this name."""
        raise SystemFailedError(f"there is no channel to {to}")

    async def operations(self) -> pa.Table | None:
        """The operations that it traced since the last call; None if it does not trace.

        The columns are those of `mqlab.events.schema.OperationRow`.
        """
        return None

    async def switch(self, system: System) -> SwitchMoments:
        """Change the live settings to those of `system`; return when they are in force."""
        raise SystemFailedError(f"the settings of {system.name} cannot be changed while it runs")

    def kill(self) -> None:
        """Send SIGKILL to all its processes. Its data stays."""
        raise SystemFailedError("the lab cannot kill it")

    async def shut_down(self) -> None:
        """Stop it in order. Its data stays."""
        raise SystemFailedError("the lab cannot shut it down")

    async def start_again(self) -> None:
        """After `kill` or `shut_down`: start it with its data, at its address; return when clients can connect."""
        raise SystemFailedError("the lab cannot start it again")

    def suspend(self) -> None:
        """Let all its processes stand still (SIGSTOP)."""
        raise SystemFailedError("the lab cannot suspend it")

    def resume(self) -> None:
        """Let its suspended processes go on (SIGCONT)."""
        raise SystemFailedError("the lab cannot resume it")

    def delay_syncs(self, seconds: float) -> None:
        """Let every sync of its journal take so much longer."""
        raise SystemFailedError(f"the lab cannot delay its syncs by {seconds:g} s")

    @abstractmethod
    async def stop(self) -> None:
        """End all its processes in any case. A system that another process hosts is only disconnected."""


class Hosted(ABC):
    """A system in this process (`System.host`)."""

    # The address at which other processes reach it.
    address: str

    @abstractmethod
    async def close(self) -> None:
        """Stop it."""
