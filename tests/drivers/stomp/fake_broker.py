"""A broker of a few lines: it says what a test tells it to, and remembers what it was told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompFrame, encode


class FakeBroker:
    def __init__(self, server: str = "mqlab") -> None:
        self.server = server
        self.address = ""
        # By connection, in the order in which they came; the first is only a try.
        self.heard: list[list[StompFrame]] = []
        self.writers: list[asyncio.StreamWriter] = []
        # Whether receipts are given at once.
        self.answers = True
        self.greeting: bytes | None = None

    def frames(self, *commands: str) -> list[StompFrame]:
        return [frame for one in self.heard for frame in one if frame.command in commands]

    def write(self, frame: StompFrame, connection: int = -1) -> None:
        self.writers[connection].write(encode(frame, "1.2"))

    def deliver(self, *bodies: bytes, redelivered: bool = False) -> None:
        for number, body in enumerate(bodies):
            headers = {"ack": f"m:{number}", "message-id": f"m:{number}", "redelivered": str(redelivered).lower()}
            self.write(StompFrame("MESSAGE", headers, body))

    async def until(self, command: str, count: int = 1) -> list[StompFrame]:
        while len(found := self.frames(command)) < count:
            await asyncio.sleep(0.001)
        return found

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard: list[StompFrame] = []
        self.heard.append(heard)
        self.writers.append(writer)
        splitter = StompFrameDecoder(Limits(), "")
        while data := await reader.read(65536):
            for frame in splitter.feed(data):
                heard.append(frame)
                if frame.command == "CONNECT":
                    splitter.version = "1.2"
                    greeting = StompFrame("CONNECTED", {"version": "1.2", "server": self.server})
                    writer.write(self.greeting or encode(greeting, "1.2"))
                elif "receipt" in frame.headers and (self.answers or frame.command != "SEND"):
                    writer.write(encode(StompFrame("RECEIPT", {"receipt-id": frame.headers["receipt"]}), "1.2"))
        writer.close()


@asynccontextmanager
async def fake_broker(server: str = "mqlab") -> AsyncIterator[FakeBroker]:
    one = FakeBroker(server)
    listening = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    one.address = f"tcp:{host}:{port}"
    try:
        yield one
    finally:
        for writer in one.writers:
            writer.close()
        listening.close()
        await listening.wait_closed()
