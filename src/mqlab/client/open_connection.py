"""From an address to a connection that the broker has greeted."""

import asyncio
from pathlib import Path
from typing import Any

from mqlab.client.connection import Wire
from mqlab.client.inprocess import bindings
from mqlab.client.keepalive import Silence
from mqlab.wire.address import Address
from mqlab.wire.tls import client_context


async def open_wire(address: str, hello: dict[str, Any], ca: Path | None, silence: float | None = None) -> Wire:
    """Raises OSError if nobody listens there, LoginError if the broker does not want us."""
    to, loop = Address.parse(address), asyncio.get_running_loop()
    if to.broker:
        wire = bindings.door(to.broker).enter()
    elif to.path:
        _, wire = await loop.create_unix_connection(Wire, to.path)
    elif to.tls:
        _, wire = await loop.create_connection(Wire, to.host, to.port, ssl=client_context(ca), server_hostname=to.host)
    else:
        _, wire = await loop.create_connection(Wire, to.host, to.port)
    if silence is not None and not to.broker:
        Silence(wire, silence)
    await wire.greet(hello)
    return wire
