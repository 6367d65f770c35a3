"""The other end of a channel: a connection to the broker it leads to, with one transaction for each batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mqlab.broker import limits
from mqlab.broker.channel_settings import ChannelError, ChannelSettings
from mqlab.broker.core.routing.remote_queues import TOKENS
from mqlab.broker.server.channels.batch import ChannelBatch
from mqlab.broker.server.channels.token import ChannelToken
from mqlab.client import aio
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.client.open_connection import open_connection
from mqlab.regular_file import read_regular
from mqlab.wire.native.bodies import Payload, select_rows
from mqlab.wire.native.frames import Frame

# A broker over there that says nothing for so long is not there.
ANSWER_SECONDS: Final = 10.0
# Producers that are kept open, least recently used first to go: replies go to many queues.
_MOST_PRODUCERS: Final = 64


class ConnectionLossWatch:
    """A link of the connection that learns when it is lost, also while nothing goes through it."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[MessagingError] = asyncio.get_running_loop().create_future()

    def handle(self, frame: Frame) -> None:
        """The broker knows of no such link."""

    def lost(self, error: MessagingError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)


class ReceivingEnd:
    """Raises MessagingError and OSError for whatever is wrong with the connection, RefusedError as the broker does."""

    def __init__(
        self, connection: aio.Connection, session: aio.Session, tokens: aio.Consumer, writer: aio.Producer,
        watch: ConnectionLossWatch, frame_limit: int,
    ) -> None:  # fmt: skip
        # What has become of the connection, once that is known.
        self.ended = watch.ended
        self._connection = connection
        self._session = session
        self._tokens = tokens
        self._writer = writer
        self._frame_limit = frame_limit
        self._producers: dict[str, aio.Producer] = {}
        # Whether there is a token over there, and whether it is in our hand.
        self._there = self._held = False

    @classmethod
    async def connect(cls, channel: ChannelSettings, own: str, password: str) -> ReceivingEnd:
        """A connection that the same channel had before, and that may not know yet that it is cut, is ended."""
        name = f"{TOKENS}{own}"
        hello = {"client_id": name, "take_over": True, "user": channel.user, "password": password, "application": name}
        async with asyncio.timeout(ANSWER_SECONDS):
            native_connection = await open_connection(channel.address, hello, channel.ca)
            connection, watch = aio.Connection(native_connection), ConnectionLossWatch()
            native_connection.attach(native_connection.new_link(), watch)
            try:
                if native_connection.broker != channel.to:
                    called = f"is called {native_connection.broker}" if native_connection.broker else "has no name"
                    raise ChannelError(f"the broker at {channel.address} {called}, not {channel.to}")
                session = await connection.session("transacted")
                tokens = await session.consumer(f"queue:{name}", prefetch=2)
                writer = await session.producer(f"queue:{name}", ids=False, timestamps=False)
            except BaseException:
                await connection.drop()
                raise
        return cls(connection, session, tokens, writer, watch, native_connection.frame_limit)

    async def token(self) -> ChannelToken | None:
        """What the token says, which is in hand from now on. None: there was none, and there is one now."""
        # Also one that a connection before this one is just about to commit is counted.
        self._there = (await self._connection.ask("show", name=self._tokens.destination))["messages"] > 0
        if self._there:
            return await self._hold()
        await self.commit(ChannelToken(), persistent=False)
        return None

    async def send(self, batch: ChannelBatch) -> None:
        for target, payload, persistent in batch.sends():
            producer = self._producers.pop(target, None) or await self._session.producer(target)
            self._producers[target] = producer
            for part in fitting(payload, self._frame_limit):
                await producer.send_batch(part, persistent=persistent)
            if len(self._producers) > _MOST_PRODUCERS:
                await self._session.release(self._producers.pop(next(iter(self._producers))))

    async def commit(self, token: ChannelToken, *, persistent: bool) -> None:
        """What was sent arrives, and the new token takes the place of the one in hand: both or nothing."""
        await self._writer.send_batch(token.payload(), persistent=persistent)
        if self._there and not self._held:
            await self._hold()
        await self._session.commit()
        self._there, self._held = True, False

    async def undo(self) -> None:
        """After a refusal: nothing of it was sent, and no producer knows anything any more."""
        await self._session.rollback()
        self._held = False
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            await self._session.release(producer)

    async def ping(self) -> str:
        """That it is still there. Returns why it takes no persistent message now, or ""."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return str((await self._connection.status())["disk_full"])
        except TimeoutError:
            raise MessagingError(f"the broker has not answered for {ANSWER_SECONDS:g} seconds") from None

    async def close(self) -> None:
        await self._connection.drop()

    async def _hold(self) -> ChannelToken:
        try:
            delivery = await self._tokens.receive_batch(ANSWER_SECONDS)
        except TimeoutError:
            raise MessagingError(f"somebody else has the message of {self._tokens.destination} in hand") from None
        self._held = True
        try:
            tokens = [ChannelToken.read(message.body) for message in delivery.messages()]
        except ValueError as error:
            raise MessagingError(f"{self._tokens.destination}: {error}") from None
        return ChannelToken.of(one for token in tokens for one in token.ids)


def fitting(payload: Payload, limit: int) -> Iterator[Payload]:
    """The payload in parts of at most `limit` bytes. Raises RefusedError for a message that is longer by itself."""
    size, rows = len(payload.data), payload.rows
    if size <= limit:
        yield payload
    elif rows == 1:
        raise RefusedError(f"a message of {size} bytes; the limit is {limit}")
    else:
        for part in (range(rows // 2), range(rows // 2, rows)):
            yield from fitting(select_rows(payload, part), limit)


def read_password(path: Path | None) -> str:
    """The first line of a file; "" if there is none."""
    if path is None:
        return ""
    return read_regular(path, limits.WRITTEN_FILE).decode("utf-8").partition("\n")[0].rstrip("\r")
