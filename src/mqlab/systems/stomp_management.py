"""Management requests to ActiveMQ Classic and Artemis, which are messages.

Each request uses a short STOMP connection of its own.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import uuid4

from mqlab.systems.api import SystemFailedError
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame, encode, encode_head

_VERSION: Final = "1.2"
_TIMEOUT_SECONDS: Final = 20.0
_READ_BYTES: Final = 64 * 1024


def new_reply_queue() -> str:
    return f"mqlab-answers-{uuid4().hex}"


def text_message(headers: Mapping[str, str], body: str = "") -> bytes:
    """A SEND frame without content-length: brokers take it for a JMS text message."""
    return encode_head("SEND", headers, _VERSION) + f"\n{body}\0".encode()


async def exchange(
    port: int, requests: Sequence[bytes | StompFrame], done: Callable[[list[StompFrame]], bool]
) -> list[StompFrame]:
    """Send frames and return the RECEIPT and MESSAGE frames that came, when they are `done`.

    Raises SystemFailedError.
    """
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                connect = StompFrame("CONNECT", {"accept-version": _VERSION, "host": "/", "heart-beat": "0,0"})
                frames = [frame if isinstance(frame, bytes) else encode(frame, _VERSION) for frame in requests]
                writer.write(b"".join((encode(connect, _VERSION), *frames)))
                return await _receive(reader, done)
            finally:
                writer.close()
    except (OSError, StompError) as error:
        raise SystemFailedError(f"it does not answer: {error or 'in time'}") from error


async def _receive(reader: asyncio.StreamReader, done: Callable[[list[StompFrame]], bool]) -> list[StompFrame]:
    splitter, frames = StompFrameDecoder(Limits()), list[StompFrame]()
    while True:
        data = await reader.read(_READ_BYTES)
        if not data:
            raise SystemFailedError("it closed the connection")
        for frame in splitter.feed(data):
            if frame.command == "ERROR":
                text = frame.headers.get("message") or frame.body.decode(errors="replace")
                raise SystemFailedError(f"it reports: {text}")
            if frame.command == "CONNECTED":
                splitter.version = _VERSION
                continue
            frames.append(frame)
            if done(frames):
                return frames
