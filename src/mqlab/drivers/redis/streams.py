"""Redis streams, which the driver uses for queues and for topics whose messages must be kept."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.drivers.redis.client import RedisClient
from mqlab.wire import resp

# The consumer group of every queue, whose members compete for its messages.
SHARED: Final = b"all"
# Entries of one read, whatever the prefetch is: it limits the size of a reply.
_MAX_READ: Final = 10_000
_MAX_INHERITED: Final = 100_000
_UNBLOCK_INTERVAL_S: Final = 0.05
# How often, in the time after which a reader claims the messages of others, it looks for them.
_LOOKS: Final = 10


class RedisStream:
    """A stream and the consumer group that reads it. The group b"" stands for a subscription that is not durable."""

    def __init__(self, destination: str, group: bytes) -> None:
        self.key = destination.encode()
        self.group = group
        self.is_queue = destination.startswith("queue:")
        # The set of consumers that closed with unacknowledged messages.
        self.abandoned = self.key + b":left:" + group

    def ack_commands(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the commands that acknowledge these entries, and delete them from a queue."""
        commands = [resp.command(b"XACK", self.key, self.group, *ids)]
        return [*commands, resp.command(b"XDEL", self.key, *ids)] if self.is_queue else commands

    async def create(self, client: RedisClient) -> None:
        """Create the group if it does not exist. A queue starts with its first entry, a subscription with the next."""
        try:
            await client.call(b"XGROUP", b"CREATE", self.key, self.group, b"0" if self.is_queue else b"$", b"MKSTREAM")
        except DriverError as error:
            if "BUSYGROUP" not in str(error):
                raise


class StreamReader:
    """Reads a stream into an inbox on demand. Reads block `client`; all other commands go over `control`.

    `redeliver_after_s`: it claims what another consumer of the group has not acknowledged for so long, since Redis
    does not notice that a consumer is gone. None: it claims only what consumers have left in order.
    """

    def __init__(
        self,
        client: RedisClient,
        control: RedisClient,
        stream: RedisStream,
        max_read: int,
        inbox: Inbox[bytes],
        redeliver_after_s: float | None = None,
    ) -> None:
        self._client = client
        self._control = control
        self._stream = stream
        self._count = b"%d" % min(_MAX_READ, max_read)
        self._inbox = inbox
        self._name = secrets.token_hex(8).encode()
        self._id = b""
        self._last = b"0-0"
        self._read_reply: asyncio.Future[resp.Value] | None = None
        self._closing = False
        self._redeliver_after_s = redeliver_after_s
        self._claiming: asyncio.Task[None] | None = None
        client.on_lost(inbox.fail)

    async def open(self) -> None:
        """Prepare to read; no entry that is added after the return is missed."""
        number = await self._client.call(b"CLIENT", b"ID")
        self._id = b"%d" % number if isinstance(number, int) else b""
        stream = self._stream
        if stream.group:
            await stream.create(self._control)
            await self._inherit()
            if self._redeliver_after_s is not None:
                self._claiming = asyncio.ensure_future(self._claim_repeatedly(self._redeliver_after_s))
            return
        newest = await self._control.call(b"XREVRANGE", stream.key, b"+", b"-", b"COUNT", b"1")
        if isinstance(newest, resp.StreamEntries):
            self._last = newest.ids[0]
        self.read_next([])

    def read_next(self, done: Sequence[bytes]) -> None:
        """Acknowledge the entries `done`, and start a read unless one is pending."""
        commands = self._stream.ack_commands(done) if done else []
        if self._read_reply is None:
            commands.append(self._read_command())
            self._read_reply = self._client.submit(b"".join(commands), len(commands))
            self._read_reply.add_done_callback(self._handle_entries)
        elif commands:
            self._control.submit(b"".join(commands), len(commands))

    async def acknowledge_all(self, done: Sequence[bytes]) -> None:
        """Acknowledge these entries in a transaction."""
        commands = [resp.command(b"MULTI"), *self._stream.ack_commands(done), resp.command(b"EXEC")]
        await with_timeout(self._control.submit(b"".join(commands), len(commands)))

    async def close(self, unacknowledged: list[bytes]) -> None:
        """End the consumer; the next one of the group inherits its unacknowledged messages."""
        self._closing = True
        if self._claiming is not None:
            self._claiming.cancel()
        if self._read_reply is not None:
            await with_timeout(self._unblocked(self._read_reply))
        stream = self._stream
        if stream.group:
            if unacknowledged or self._inbox.drain_tags():
                await self._control.call(b"SADD", stream.abandoned, self._name)
            else:
                await self._control.call(b"XGROUP", b"DELCONSUMER", stream.key, stream.group, self._name)
        await self._client.close()

    async def _unblocked(self, reply: "asyncio.Future[resp.Value]") -> None:
        while not reply.done():
            # CLIENT UNBLOCK has no effect before the read has blocked, so repeat it.
            await self._control.call(b"CLIENT", b"UNBLOCK", self._id)
            await asyncio.wait((reply,), timeout=_UNBLOCK_INTERVAL_S)

    def _read_command(self) -> bytes:
        stream = self._stream
        options = (b"COUNT", self._count, b"BLOCK", b"0", b"STREAMS", stream.key)
        if stream.group:
            return resp.command(b"XREADGROUP", b"GROUP", stream.group, self._name, *options, b">")
        return resp.command(b"XREAD", *options, self._last)

    def _handle_entries(self, reply: "asyncio.Future[resp.Value]") -> None:
        self._read_reply = None
        if reply.cancelled():
            return
        error = reply.exception()
        if error is not None:
            self._inbox.fail(str(error))
            return
        entries = reply.result()
        if isinstance(entries, resp.StreamEntries):
            self._put(entries, False)
            # A reader in a group reads on when the role acknowledges.
            if not self._stream.group and not self._closing:
                self.read_next([])

    def _put(self, entries: resp.StreamEntries, redelivered: bool) -> None:
        self._last = entries.ids[-1]
        tags = entries.ids
        if any(entries.replies):
            tags = [b"%s %s" % pair for pair in zip(entries.ids, entries.replies, strict=True)]
        self._inbox.put(entries.bodies, tags if self._stream.group else [], redelivered)

    async def _inherit(self) -> None:
        stream = self._stream
        abandoned = await self._control.call(b"SPOP", stream.abandoned, b"1000")
        for name in abandoned if isinstance(abandoned, list) else []:
            assert isinstance(name, bytes)
            await self._claim(0, name)
            await self._control.call(b"XGROUP", b"DELCONSUMER", stream.key, stream.group, name)

    async def _claim_repeatedly(self, idle_s: float) -> None:
        """Until the connection is lost, or the reader closes."""
        with suppress(DriverError):
            while True:
                await asyncio.sleep(idle_s / _LOOKS)
                await self._claim(round(idle_s * 1000))

    async def _claim(self, idle_ms: int, *consumer: bytes) -> None:
        """Take over what others, or one of them, have had without an acknowledgement for so long."""
        stream, idle = self._stream, b"%d" % idle_ms
        words = (b"XPENDING", stream.key, stream.group, b"IDLE", idle, b"-", b"+", b"%d" % _MAX_INHERITED, *consumer)
        pending = await self._control.call(*words)
        rows = [row for row in pending if isinstance(row, list)] if isinstance(pending, list) else []
        ids = [row[0] for row in rows if isinstance(row[0], bytes) and row[1] != self._name]
        if ids:
            # Of several readers that claim the same message, the first gets it: it is not idle any more.
            claimed = await self._control.call(b"XCLAIM", stream.key, stream.group, self._name, idle, *ids)
            if isinstance(claimed, resp.StreamEntries):
                self._put(claimed, True)
