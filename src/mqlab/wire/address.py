"""Addresses of a broker: `tcp:HOST:PORT`, `tls:HOST:PORT` or `unix:PATH`."""

import ipaddress
from typing import NamedTuple


class BadAddressError(ValueError):
    """The text is no address."""


class Address(NamedTuple):
    """A TCP address, or the path of a Unix socket (then host is "" and port 0)."""

    host: str
    port: int
    path: str = ""
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> "Address":
        scheme, _, rest = text.partition(":")
        if scheme == "unix" and rest:
            return cls("", 0, rest)
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if scheme in ("tcp", "tls") and host and port.isdecimal() and int(port) < 65536:
            return cls(host, int(port), "", scheme == "tls")
        raise BadAddressError(f"{text!r} is no address; write tcp:127.0.0.1:7766, tls:HOST:PORT or unix:/path/of/it")

    @property
    def is_local(self) -> bool:
        """Only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        scheme = "tls" if self.tls else "tcp"
        return f"{scheme}:[{self.host}]:{self.port}" if ":" in self.host else f"{scheme}:{self.host}:{self.port}"
