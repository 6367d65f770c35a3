"""A WebSocket client that sends any frames, to a broker in the event loop of the test."""

import asyncio
from typing import NamedTuple

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Event, Ping, Pong, Request, TextMessage

from broker.server.raw_client import opened
from broker.server.stomp.stomp_clients import frame
from mqlab.wire.address import Address

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
UPGRADE = {
    "Host": "127.0.0.1:7766", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
}  # fmt: skip
CONNECT = frame("CONNECT", **{"accept-version": "1.2"})


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def request(target: str = "/", method: str = "GET", **headers: str | None) -> bytes:
    """A request for WebSocket, with these headers changed, or left out if they are None."""
    wanted = {**UPGRADE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in wanted.items() if value is not None)
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")


async def asked(address: Address, *said: bytes) -> Reply:
    """All that is answered to these bytes, if it is an answer of HTTP after which the broker ends the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    for data in said:
        writer.write(data)
        await asyncio.sleep(0)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert int(headers["content-length"]) == len(body)
    return Reply(int(first.split()[1]), headers, body)


class Web:
    """Messages out and in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.connection = WSConnection(ConnectionType.CLIENT)
        self.subprotocol: str | None = None
        self._events: list[Event] = []
        self._ended = False
        opened.append(self)

    @classmethod
    async def open(cls, address: Address, subprotocols: tuple[str, ...] = ()) -> "Web":
        """It is one of WebSocket, and nothing is said yet."""
        over_unix = asyncio.open_unix_connection(address.path) if address.path else None
        web = cls(*await (over_unix or asyncio.open_connection(address.host, address.port)))
        web.event(Request("broker", "/", subprotocols=list(subprotocols)))
        accepted = await web.next()
        assert isinstance(accepted, AcceptConnection)
        assert not accepted.extensions
        web.subprotocol = accepted.subprotocol
        return web

    @classmethod
    async def connect(cls, address: Address) -> "Web":
        """It is let in."""
        web = await cls.open(address)
        web.write(CONNECT)
        assert (await web.text()).startswith("CONNECTED\n")
        return web

    def event(self, event: Event) -> None:
        self.writer.write(self.connection.send(event))

    def write(self, data: bytes, *, binary: bool = False, finished: bool = True) -> None:
        self.event(BytesMessage(data, message_finished=finished) if binary else
                   TextMessage(data.decode(), message_finished=finished))  # fmt: skip

    def say_frame(self, command: str, body: bytes = b"", **headers: str) -> None:
        self.write(frame(command, body, **headers))

    async def next(self) -> Event:
        """Raises EOFError when the broker has ended the connection."""
        while not self._events:
            if self._ended:
                raise EOFError
            try:
                data = await self.reader.read(65536)
            except ConnectionError:
                data = b""
            if data:
                self.connection.receive_data(data)
            self._ended = not data
            self._events += self.connection.events()
        return self._events.pop(0)

    async def message(self) -> str | bytes:
        """Of one whole message, with the pings that came with it left out."""
        texts: list[str] = []
        parts: list[bytes] = []
        while True:
            event = await self.next()
            if isinstance(event, Ping | Pong):
                continue
            assert isinstance(event, TextMessage | BytesMessage), event
            if isinstance(event, TextMessage):
                assert not parts
                texts.append(event.data)
            else:
                assert not texts
                parts.append(bytes(event.data))
            if event.message_finished:
                return "".join(texts) if texts else b"".join(parts)

    async def text(self) -> str:
        message = await self.message()
        assert isinstance(message, str)
        return message

    async def done(self) -> None:
        """All that was said is done; nothing else must come meanwhile."""
        self.say_frame("BEGIN", transaction="t", receipt="done")
        self.say_frame("ABORT", transaction="t")
        assert "receipt-id:done\n" in await self.text()

    async def is_ended(self) -> tuple[str, int]:
        """The broker says why, closes, and says nothing more. Returns what it says, and the code."""
        error = await self.text()
        assert error.startswith("ERROR\n")
        return error, await self.is_closed()

    async def is_closed(self) -> int:
        event = await self.next()
        assert isinstance(event, CloseConnection)
        try:
            follows = await self.next()
        except EOFError:
            return event.code
        raise AssertionError(follows)

    def abort(self) -> None:
        """As if its process had died."""
        self.writer.transport.abort()

    async def close(self) -> None:
        """Also done at the end of the test."""
        self.writer.close()
