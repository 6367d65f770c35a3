"""The receiving end of a channel: a connection to the other broker, with one transaction for each batch."""

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

# A broker that does not answer for this time is considered gone.
ANSWER_SECONDS: Final = 10.0
# Producers that stay open; the least recently used one is closed first. Replies go to many queues.
_MOST_PRODUCERS: Final = 64


class ConnectionLossWatch:
    """A link that learns when the connection is lost, also while the channel is idle."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[MessagingError] = asyncio.get_running_loop().create_future()

    def handle(self, frame: Frame) -> None:
        """The broker does not know this link, so it sends no frame to it."""

    def lost(self, error: MessagingError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)


class ReceivingEnd:
    """Raises MessagingError and OSError for a broken connection, and RefusedError when the broker refuses a send."""

    def __init__(
        self, connection: aio.Connection, session: aio.Session, tokens: aio.Consumer, writer: aio.Producer,
        watch: ConnectionLossWatch, frame_limit: int,
    ) -> None:  # fmt: skip
        # The error that ended the connection.
        self.ended = watch.ended
        self._connection = connection
        self._session = session
        self._tokens = tokens
        self._writer = writer
        self._frame_limit = frame_limit
        self._producers: dict[str, aio.Producer] = {}
        # Whether the other broker has a token, and whether this connection has received it.
        self._token_exists = self._token_held = False

    @classmethod
    async def connect(cls, channel: ChannelSettings, own: str, password: str) -> "ReceivingEnd":
        """The other broker ends an older connection of the same channel, which may have been cut unnoticed."""
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
        """Receive the token without acknowledging it. None: there was no token, and this call has created one."""
        # `show` also counts a token that an older connection is about to commit.
        self._token_exists = (await self._connection.ask("show", name=self._tokens.destination))["messages"] > 0
        if self._token_exists:
            return await self._receive_token()
        await self.commit(ChannelToken(), persistent=False)
        return None

    async def send(self, batch: ChannelBatch) -> None:
        for target, payload, persistent in batch.sends():
            producer = self._producers.pop(target, None) or await self._session.producer(target)
            self._producers[target] = producer
            for part in split_to_fit(payload, self._frame_limit):
                await producer.send_batch(part, persistent=persistent)
            if len(self._producers) > _MOST_PRODUCERS:
                await self._session.release(self._producers.pop(next(iter(self._producers))))

    async def commit(self, token: ChannelToken, *, persistent: bool) -> None:
        """Commit the sends and replace the token, in one transaction."""
        await self._writer.send_batch(token.payload(), persistent=persistent)
        if self._token_exists and not self._token_held:
            await self._receive_token()
        await self._session.commit()
        self._token_exists, self._token_held = True, False

    async def rollback(self) -> None:
        """Roll the batch back after a refusal, and close its producers."""
        await self._session.rollback()
        self._token_held = False
        producers, self._producers = self._producers, {}
        for producer in producers.values():
            await self._session.release(producer)

    async def ping(self) -> str:
        """Return why the other broker refuses persistent messages, or "". Raises MessagingError without an answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return str((await self._connection.status())["disk_full"])
        except TimeoutError:
            raise MessagingError(f"the broker has not answered for {ANSWER_SECONDS:g} seconds") from None

    async def close(self) -> None:
        await self._connection.drop()

    async def _receive_token(self) -> ChannelToken:
        try:
            delivery = await self._tokens.receive_batch(ANSWER_SECONDS)
        except TimeoutError:
            raise MessagingError(f"another consumer holds the message of {self._tokens.destination}") from None
        self._token_held = True
        try:
            tokens = [ChannelToken.read(message.body) for message in delivery.messages()]
        except ValueError as error:
            raise MessagingError(f"{self._tokens.destination}: {error}") from None
        return ChannelToken.of(ids for token in tokens for ids in token.ids)


def split_to_fit(payload: Payload, limit: int) -> Iterator[Payload]:
    """Split a payload into parts of at most `limit` bytes. Raises RefusedError for a single message that is longer."""
    size, rows = len(payload.data), payload.rows
    if size <= limit:
        yield payload
    elif rows == 1:
        raise RefusedError(f"a message of {size} bytes; the limit is {limit}")
    else:
        for part in (range(rows // 2), range(rows // 2, rows)):
            yield from split_to_fit(select_rows(payload, part), limit)


def read_password(path: Path | None) -> str:
    """The first line of the file; "" without a file."""
    if path is None:
        return ""
    return read_regular(path, limits.WRITTEN_FILE).decode("utf-8").partition("\n")[0].rstrip("\r")
