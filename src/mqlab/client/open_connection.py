"""Opens a connection to an address, up to the end of the handshake."""

import asyncio
from pathlib import Path
from typing import Any

from mqlab.client.connection import NativeClientConnection
from mqlab.client.inprocess.listener import find_listener
from mqlab.client.keepalive import Keepalive
from mqlab.wire.address import Address
from mqlab.wire.tls import client_context


async def open_connection(
    address: str, hello: dict[str, Any], ca: Path | None, keepalive_s: float | None = None
) -> NativeClientConnection:
    """Raises OSError if no broker listens there, LoginError if the broker refuses the login."""
    to, loop, make = Address.parse(address), asyncio.get_running_loop(), NativeClientConnection
    if to.broker:
        connection = find_listener(to.broker).connect()
    elif to.path:
        _, connection = await loop.create_unix_connection(make, to.path)
    elif to.tls:
        tls = client_context(ca)
        _, connection = await loop.create_connection(make, to.host, to.port, ssl=tls, server_hostname=to.host)
    else:
        _, connection = await loop.create_connection(make, to.host, to.port)
    if keepalive_s is not None and not to.broker:
        Keepalive(connection, keepalive_s)
    await connection.handshake(hello)
    return connection
