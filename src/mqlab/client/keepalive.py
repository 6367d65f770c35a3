"""Keepalive: a client disconnects from a broker that has stopped answering."""

import asyncio

from mqlab.client.connection import NativeClientConnection
from mqlab.client.errors import ClosedError, MessagingError


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
