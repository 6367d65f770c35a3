"""Questions to a broker that answers them as messages: asked and answered over one short STOMP connection."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import uuid4

from mqlab.systems.api import SystemFailedError
from mqlab.wire.stomp import Limits, StompError, StompFrame, StompFrameDecoder, encode, encode_head

_VERSION: Final = "1.2"
_SECONDS: Final = 20.0
_READ: Final = 64 * 1024


def answers_queue() -> str:
    """A name for a queue of answers that nobody has."""
    return f"mqlab-answers-{uuid4().hex}"


def text(headers: Mapping[str, str], body: str = "") -> bytes:
    """A SEND without the length of its body, which makes it a text message for brokers that know the difference."""
    return encode_head("SEND", headers, _VERSION) + f"\n{body}\0".encode()


async def asked(
    port: int, said: Sequence[bytes | StompFrame], enough: Callable[[list[StompFrame]], bool]
) -> list[StompFrame]:
    """Says this, and returns what came, RECEIPT and MESSAGE frames, once it is enough. Raises SystemFailedError."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                greeting = StompFrame("CONNECT", {"accept-version": _VERSION, "host": "/", "heart-beat": "0,0"})
                frames = [one if isinstance(one, bytes) else encode(one, _VERSION) for one in said]
                writer.write(b"".join((encode(greeting, _VERSION), *frames)))
                return await _heard(reader, enough)
            finally:
                writer.close()
    except (OSError, StompError) as error:
        raise SystemFailedError(f"it does not answer: {error or 'in time'}") from error


async def _heard(reader: asyncio.StreamReader, enough: Callable[[list[StompFrame]], bool]) -> list[StompFrame]:
    splitter, frames = StompFrameDecoder(Limits()), list[StompFrame]()
    while True:
        data = await reader.read(_READ)
        if not data:
            raise SystemFailedError("it closed the connection")
        for frame in splitter.feed(data):
            if frame.command == "ERROR":
                said = frame.headers.get("message") or frame.body.decode(errors="replace")
                raise SystemFailedError(f"it says: {said}")
            if frame.command == "CONNECTED":
                splitter.version = _VERSION
                continue
            frames.append(frame)
            if enough(frames):
                return frames
