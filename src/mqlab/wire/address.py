"""Addresses of a broker: `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH`, or `bindings:NAME` in the same process."""

import ipaddress
import re
from typing import Final, NamedTuple

from mqlab.errors import MqlabError

BROKER_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,48}", re.ASCII)


class BadAddressError(MqlabError, ValueError):
    """The text is not an address."""


class Address(NamedTuple):
    """A TCP address, the path of a Unix socket, or the name of a local broker (then host is "" and port is 0)."""

    host: str
    port: int
    path: str = ""
    tls: bool = False
    broker: str = ""

    @classmethod
    def parse(cls, text: str) -> "Address":
        scheme, _, rest = text.partition(":")
        if scheme == "unix" and rest:
            return cls("", 0, rest)
        if scheme == "bindings" and BROKER_NAME.fullmatch(rest):
            return cls("", 0, broker=rest)
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if scheme in ("tcp", "tls") and host and port.isdecimal() and int(port) < 65536:
            return cls(host, int(port), "", scheme == "tls")
        raise BadAddressError(
            f"{text!r} is not an address; write tcp:127.0.0.1:7766, tls:HOST:PORT, unix:/path/of/it or bindings:NAME"
        )

    @property
    def is_local(self) -> bool:
        """Only processes of this machine can reach it."""
        if self.path or self.broker or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        if self.broker:
            return f"bindings:{self.broker}"
        scheme = "tls" if self.tls else "tcp"
        return f"{scheme}:[{self.host}]:{self.port}" if ":" in self.host else f"{scheme}:{self.host}:{self.port}"
