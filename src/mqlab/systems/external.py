"""A broker that is running already, by its address. The lab does not install, start, stop or sample it.

    external:driver=stomp,address=tcp:HOST:PORT,user=me,password=env:BROKER_PASSWORD
    external:label=ours,driver=jms,address=tcp://HOST:PORT,factory=CLASS,jars=/path/of/the/client

`label` is its name in reports; `syncs` its durability (before, later, never, unknown), which the lab cannot find out;
`line` the bandwidth of the network link to it (100Mbit, 2.5Gbit), if the kernel does not report it. All other settings
but `driver` and `address` are options of the driver. A value `env:NAME` is read from the environment, so that it is not
in the list of processes.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mqlab.json_values import JsonObject
from mqlab.systems.api import LAB_SETTINGS, Durability, Running, Syncs, System, SystemFailedError, SystemSettingError
from mqlab.systems.secrets import mask_settings, mask_text
from mqlab.wire.address import Address, BadAddressError

_FORM: Final = "external:driver=NAME,address=tcp:HOST:PORT"
_ENVIRONMENT: Final = "env:"
_LAB_SETTINGS: Final = (*LAB_SETTINGS, "label", "syncs", "line")
_BANDWIDTH: Final = re.compile(r"(\d+(?:\.\d+)?)([MG])bit")
_BITS: Final = {"M": 1e6, "G": 1e9}
_CONNECT_SECONDS: Final = 10.0
_SYNCS: Final[dict[str, Syncs]] = {
    "before": "before confirming", "later": "later", "never": "never", "unknown": "unknown",
}  # fmt: skip


class External(System):
    name = "external"
    title = "a broker that is running already"
    # Any: the setting `driver` is required.
    drivers = ("any",)
    # A study must not connect to brokers of others, or name jars, classes and environment variables.
    open_to_studies = False
    lacks = {  # noqa: RUF012 - never changed
        "depth": "the lab has no administrator's view of a broker that it did not start",
        "bindings": "it runs in a process of its own",
        "distributed": "it is one broker",
    }

    def __init__(self, settings: dict[str, str]) -> None:
        for required in ("driver", "address") if settings else ():
            if not settings.get(required):
                raise SystemSettingError(f"external: there is no {required}: write {_FORM}")
        if "" in settings:
            raise SystemSettingError("external: there is a value without the name of its setting")
        if settings.get("syncs", "unknown") not in _SYNCS:
            raise SystemSettingError(f"external: syncs: {settings['syncs']!r} is none of {', '.join(_SYNCS)}")
        if "line" in settings and _BANDWIDTH.fullmatch(settings["line"]) is None:
            raise SystemSettingError(f"external: line: {settings['line']!r} is no bandwidth: write 100Mbit or 2.5Gbit")
        super().__init__(settings)
        self.label = settings.get("label") or mask_text(self.key)

    def with_settings(self, settings: Mapping[str, str]) -> "External":
        if settings:
            changes = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise SystemSettingError(f"external: the settings of a broker that runs cannot be changed ({changes})")
        return self

    def describe(self) -> JsonObject:
        stamps = ["not started by the lab: its settings, its load and its machine are what its owner says"]
        return {"name": self.label, "version": "unknown", "settings": mask_settings(self.settings), "stamps": stamps}

    def durability(self) -> Durability:
        syncs, as_set = _SYNCS[self.settings.get("syncs", "unknown")], "as its owner has set it"
        return Durability(syncs, as_set, as_set, as_set, "as the driver does it")

    @property
    def jars(self) -> str:
        return self.settings.get("jars", "")

    def missing(self) -> str:
        return "" if self.settings else f"say which one: {_FORM}"

    def install(self, say: Callable[[str], None]) -> None:
        say("the lab does not install external brokers")

    async def start(self, folder: Path) -> Running:  # noqa: ARG002 - its data is elsewhere
        if reason := self.missing():
            raise SystemFailedError(f"external: {reason}")
        options = {key: _value(key, text) for key, text in self.settings.items() if key not in _LAB_SETTINGS}
        address = options.pop("address")
        await _check_reachable(address)
        return ExternalRunning(address, options, _bits_per_s(self.settings.get("line", "")))


class ExternalRunning(Running):
    """A connection target: nothing of it is sampled or stopped."""

    def __init__(self, address: str, options: Mapping[str, str], network_bits_per_s: float | None = None) -> None:
        self.address = address
        self.options = options
        self.network_bits_per_s = network_bits_per_s
        # It may have destinations of earlier runs.
        self.tag = f"{time.time_ns():x}-"

    async def sample(self) -> JsonObject:
        return {}

    async def empty(self) -> bool:
        return True

    async def stop(self) -> None:
        """The lab leaves it running."""


def _bits_per_s(text: str) -> float | None:
    match = _BANDWIDTH.fullmatch(text)
    return float(match[1]) * _BITS[match[2]] if match else None


def _value(key: str, text: str) -> str:
    if not text.startswith(_ENVIRONMENT):
        return text
    name = text.removeprefix(_ENVIRONMENT)
    if name not in os.environ:
        raise SystemFailedError(f"external: {key}: there is no {name} in the environment")
    return os.environ[name]


async def _check_reachable(address: str) -> None:
    """Raises SystemFailedError if no process listens there. Only the driver understands other forms of addresses."""
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
