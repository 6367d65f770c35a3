"""The socket of a client: its address, as the guard counts it, and the name in its certificate."""

import asyncio
import socket
import struct
from typing import Final

# struct ucred of Linux: process, user, group.
_CREDENTIALS: Final = struct.Struct("3i")


def peer_of(transport: asyncio.BaseTransport) -> str:
    """The IP address; `uid N` (the user of the operating system) on a Unix socket; "" inside the broker's process."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return str(peer[0])
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != socket.AF_UNIX:
        return ""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return f"uid {_CREDENTIALS.unpack(credentials)[1]}"


def certified_name(transport: asyncio.BaseTransport) -> str:
    """The common name of the client's certificate, which TLS has verified; "" if there is none, or not just one."""
    certificate = transport.get_extra_info("peercert") or {}
    fields = [field for parts in certificate.get("subject", ()) for field in parts]
    names = [str(value) for key, value in fields if key == "commonName"]
    return names[0] if len(names) == 1 else ""
