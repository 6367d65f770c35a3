"""A broker that is running already, by its address: never got, started or stopped, and nothing is seen of it inside.

    external:driver=stomp,address=tcp:HOST:PORT,user=me,password=env:BROKER_PASSWORD
    external:label=ours,driver=jms,address=tcp://HOST:PORT,factory=CLASS,jars=/path/of/the/client

`label` is what it is called in every table; `syncs` is what its owner says of it, since no one else can know, and
`line` how fast the line to it is (100Mbit, 2.5Gbit), where the machine's interface does not tell. All else but `driver`
and `address` is the driver's to understand. A value `env:NAME` is that of the environment, so that it is
in nobody's list of processes.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from mqlab.systems.api import Durability, Running, Syncs, System, SystemFailedError, SystemSettingError
from mqlab.systems.secrets import masked, shown
from mqlab.wire.address import Address, BadAddressError

_FORM: Final = "external:driver=NAME,address=tcp:HOST:PORT"
_ENVIRONMENT: Final = "env:"
_OF_THE_LAB: Final = ("label", "driver", "syncs", "line")
_LINE: Final = re.compile(r"(\d+(?:\.\d+)?)([MG])bit")
_BITS: Final = {"M": 1e6, "G": 1e9}
_CONNECT_SECONDS: Final = 10.0
_SYNCS: Final[dict[str, Syncs]] = {
    "before": "before confirming", "later": "later", "never": "never", "unknown": "unknown",
}  # fmt: skip


class External(System):
    name = "external"
    title = "a broker that is running already"
    # Whichever the setting names.
    drivers = ("any",)
    # It may be anybody's, and its options name jars, classes and variables of the environment.
    open_to_studies = False
    lacks = {  # noqa: RUF012 - never changed
        "depth": "the lab has no administrator's view of a broker that it did not start",
        "bindings": "it runs in a process of its own",
        "distributed": "it is one broker",
    }

    def __init__(self, settings: dict[str, str]) -> None:
        for wanted in ("driver", "address") if settings else ():
            if not settings.get(wanted):
                raise SystemSettingError(f"external: there is no {wanted}: write {_FORM}")
        if "" in settings:
            raise SystemSettingError("external: there is a value without the name of its setting")
        if settings.get("syncs", "unknown") not in _SYNCS:
            raise SystemSettingError(f"external: syncs: {settings['syncs']!r} is none of {', '.join(_SYNCS)}")
        if "line" in settings and _LINE.fullmatch(settings["line"]) is None:
            raise SystemSettingError(f"external: line: {settings['line']!r} is no speed: write 100Mbit or 2.5Gbit")
        super().__init__(settings)
        self.label = settings.get("label") or masked(self.key)

    def with_settings(self, settings: Mapping[str, str]) -> "External":
        if settings:
            wanted = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise SystemSettingError(f"external: the settings of a broker that runs cannot be changed ({wanted})")
        return self

    def describe(self) -> dict[str, Any]:
        stamps = ["not started by the lab: its settings, its load and its machine are what its owner says"]
        return {"name": self.label, "version": "unknown", "settings": shown(self.settings), "stamps": stamps}

    def durability(self) -> Durability:
        syncs, as_set = _SYNCS[self.settings.get("syncs", "unknown")], "as its owner has set it"
        return Durability(syncs, as_set, as_set, as_set, "as the driver does it")

    @property
    def jars(self) -> str:
        return self.settings.get("jars", "")

    def missing(self) -> str:
        return "" if self.settings else f"say which one: {_FORM}"

    def install(self, say: Callable[[str], None]) -> None:
        say("it is somebody else's to install")

    async def start(self, folder: Path) -> Running:  # noqa: ARG002 - it has its data where it has it
        if why := self.missing():
            raise SystemFailedError(f"external: {why}")
        options = {key: _value(key, text) for key, text in self.settings.items() if key not in _OF_THE_LAB}
        address = options.pop("address")
        await _answers(address)
        return ExternalRunning(address, options, _bits(self.settings.get("line", "")))


class ExternalRunning(Running):
    def __init__(self, address: str, options: Mapping[str, str], network_bits_per_s: float | None = None) -> None:
        self.address = address
        self.options = options
        self.network_bits_per_s = network_bits_per_s
        # It may hold what an earlier run of the lab has left.
        self.tag = f"{time.time_ns():x}-"

    async def sample(self) -> dict[str, Any]:
        return {}

    async def empty(self) -> bool:
        return True

    async def stop(self) -> None:
        """It goes on."""


def _bits(line: str) -> float | None:
    found = _LINE.fullmatch(line)
    return float(found[1]) * _BITS[found[2]] if found else None


def _value(key: str, text: str) -> str:
    if not text.startswith(_ENVIRONMENT):
        return text
    name = text.removeprefix(_ENVIRONMENT)
    if name not in os.environ:
        raise SystemFailedError(f"external: {key}: there is no {name} in the environment")
    return os.environ[name]


async def _answers(address: str) -> None:
    """Raises SystemFailedError if nobody is there. An address of a driver's own kind is for the driver to try."""
    try:
        parsed = Address.parse(address)
    except BadAddressError:
        return
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            if parsed.path:
                _, writer = await asyncio.open_unix_connection(parsed.path)
            else:
                _, writer = await asyncio.open_connection(parsed.host, parsed.port)
            writer.close()
            await writer.wait_closed()
    except TimeoutError:
        raise SystemFailedError(f"external: {address} did not answer within {_CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise SystemFailedError(f"external: nothing answers at {address}: {error.strerror or error}") from error
