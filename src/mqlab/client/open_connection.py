"""Opens a connection to an address, up to the end of the handshake, and disconnects when the broker is silent."""

import asyncio
from pathlib import Path

from mqlab.client.connection import NativeClientConnection
from mqlab.client.errors import ClosedError, MessagingError
from mqlab.client.inprocess.listener import find_listener
from mqlab.json_values import JsonObject
from mqlab.wire.address import Address
from mqlab.wire.tls import client_context


async def open_connection(
    address: str, hello: JsonObject, ca: Path | None, keepalive_s: float | None = None
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


class Keepalive:
    """Pings a broker that is idle, and disconnects if nothing arrives within the timeout."""

    def __init__(self, connection: NativeClientConnection, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._ping_task: asyncio.Task[None] | None = None
        self._schedule_check()

    def _schedule_check(self) -> None:
        """Twice in the timeout: the first check pings, the second expects that something has arrived."""
        self._connection.loop.call_later(self._timeout_s / 2, self._check)

    def _check(self) -> None:
        connection = self._connection
        if not connection.is_open:
            return
        if connection.traffic_seen:
            connection.traffic_seen, self._ping_task = False, None
        elif self._ping_task is None:
            self._ping_task = connection.loop.create_task(self._ping())
        else:
            connection.disconnect(ClosedError(f"the broker did not answer within {self._timeout_s:g} s"))
            return
        self._schedule_check()

    async def _ping(self) -> None:
        try:
            await self._connection.admin_request("ping")
        except MessagingError:
            """The connection is lost, which its links learn by themselves."""
