"""Streams of Redis: what a queue is, and a topic whose messages must be kept."""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final

from mqlab.drivers.api import DriverError
from mqlab.drivers.common.inbox import Inbox
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.drivers.redis.connection import Talk
from mqlab.wire import resp

# The one group of a queue, whose members compete for its messages.
SHARED: Final = b"all"
# Read at once, however large the prefetch is: a reply is as large as that.
_MOST_READ: Final = 10_000
_MOST_LEFT: Final = 100_000
_UNBLOCK_SECONDS: Final = 0.05


class Place:
    """A stream, and the group that reads it: b"" for a subscriber that gets only what comes while it is there."""

    def __init__(self, destination: str, group: bytes) -> None:
        self.key = destination.encode()
        self.group = group
        self.is_queue = destination.startswith("queue:")
        # Consumers that went away without having acknowledged everything.
        self.left = self.key + b":left:" + group

    def done(self, ids: Sequence[bytes]) -> list[bytes]:
        """Commands that acknowledge these; what is on a queue is gone then."""
        commands = [resp.command(b"XACK", self.key, self.group, *ids)]
        return [*commands, resp.command(b"XDEL", self.key, *ids)] if self.is_queue else commands

    async def make(self, talk: Talk) -> None:
        """A queue has all that was ever sent to it, a subscription what is sent from now on."""
        try:
            await talk.ask(b"XGROUP", b"CREATE", self.key, self.group, b"0" if self.is_queue else b"$", b"MKSTREAM")
        except DriverError as error:
            if "BUSYGROUP" not in str(error):
                raise


class Reader:
    """Reads into an inbox when asked. Its talk waits for messages; what must not wait is said on `control`."""

    def __init__(self, talk: Talk, control: Talk, place: Place, most: int, inbox: Inbox[bytes]) -> None:
        self._talk = talk
        self._control = control
        self._place = place
        self._count = b"%d" % min(_MOST_READ, most)
        self._inbox = inbox
        self._name = secrets.token_hex(8).encode()
        self._id = b""
        self._last = b"0-0"
        self._asking: asyncio.Future[resp.Value] | None = None
        self._closing = False
        talk.when_gone(inbox.fail)

    async def open(self) -> None:
        """From now on it misses nothing."""
        number = await self._talk.ask(b"CLIENT", b"ID")
        self._id = b"%d" % number if isinstance(number, int) else b""
        place = self._place
        if place.group:
            await place.make(self._control)
            await self._inherit()
            return
        newest = await self._control.ask(b"XREVRANGE", place.key, b"+", b"-", b"COUNT", b"1")
        if isinstance(newest, resp.StreamEntries):
            self._last = newest.ids[0]
        self.ask([])

    def ask(self, done: Sequence[bytes]) -> None:
        """Acknowledge these, and read the next if nobody waits for them already."""
        commands = self._place.done(done) if done else []
        if self._asking is None:
            commands.append(self._reading())
            self._asking = self._talk.asked(b"".join(commands), len(commands))
            self._asking.add_done_callback(self._read)
        elif commands:
            self._control.asked(b"".join(commands), len(commands))

    async def finish(self, done: Sequence[bytes]) -> None:
        """Acknowledge all of these or none."""
        commands = [resp.command(b"MULTI"), *self._place.done(done), resp.command(b"EXEC")]
        await with_timeout(self._control.asked(b"".join(commands), len(commands)))

    async def close(self, unfinished: list[bytes]) -> None:
        """The next one that opens the queue or subscription gets what was not acknowledged."""
        self._closing = True
        if self._asking is not None:
            await with_timeout(self._unblocked(self._asking))
        place = self._place
        if place.group:
            if unfinished or self._inbox.take_all():
                await self._control.ask(b"SADD", place.left, self._name)
            else:
                await self._control.ask(b"XGROUP", b"DELCONSUMER", place.key, place.group, self._name)
        await self._talk.close()

    async def _unblocked(self, asking: "asyncio.Future[resp.Value]") -> None:
        while not asking.done():
            # Told before it has begun to wait, it waits all the same.
            await self._control.ask(b"CLIENT", b"UNBLOCK", self._id)
            await asyncio.wait((asking,), timeout=_UNBLOCK_SECONDS)

    def _reading(self) -> bytes:
        place = self._place
        how = (b"COUNT", self._count, b"BLOCK", b"0", b"STREAMS", place.key)
        if place.group:
            return resp.command(b"XREADGROUP", b"GROUP", place.group, self._name, *how, b">")
        return resp.command(b"XREAD", *how, self._last)

    def _read(self, asking: "asyncio.Future[resp.Value]") -> None:
        self._asking = None
        if asking.cancelled():
            return
        error = asking.exception()
        if error is not None:
            self._inbox.fail(str(error))
            return
        entries = asking.result()
        if isinstance(entries, resp.StreamEntries):
            self._put(entries, False)
            # Only those of a group wait to be told that what they have is done.
            if not self._place.group and not self._closing:
                self.ask([])

    def _put(self, entries: resp.StreamEntries, redelivered: bool) -> None:
        self._last = entries.ids[-1]
        marks = entries.ids
        if any(entries.replies):
            marks = [b"%s %s" % pair for pair in zip(entries.ids, entries.replies, strict=True)]
        self._inbox.put(entries.bodies, marks if self._place.group else [], redelivered)

    async def _inherit(self) -> None:
        place = self._place
        left = await self._control.ask(b"SPOP", place.left, b"1000")
        for name in left if isinstance(left, list) else []:
            assert isinstance(name, bytes)
            most = b"%d" % _MOST_LEFT
            pending = await self._control.ask(b"XPENDING", place.key, place.group, b"-", b"+", most, name)
            rows = pending if isinstance(pending, list) else []
            ids = [row[0] for row in rows if isinstance(row, list) and isinstance(row[0], bytes)]
            if ids:
                claimed = await self._control.ask(b"XCLAIM", place.key, place.group, self._name, b"0", *ids)
                if isinstance(claimed, resp.StreamEntries):
                    self._put(claimed, True)
            await self._control.ask(b"XGROUP", b"DELCONSUMER", place.key, place.group, name)
