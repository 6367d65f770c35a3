"""What ActiveMQ Classic and Artemis share: the choice of a JMS client, durability, and management by messages.

Each management request uses a short STOMP connection of its own.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final
from uuid import uuid4

from mqlab.systems.api import Durability, Syncs, SystemFailedError
from mqlab.systems.install.download import path_of
from mqlab.systems.install.qpid_jms import QPID_JMS
from mqlab.systems.program import Program
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompError, StompFrame, encode, encode_head

_VERSION: Final = "1.2"
_TIMEOUT_SECONDS: Final = 20.0
_READ_BYTES: Final = 64 * 1024
_OWN: Final = "own"
# The value of the setting `client`, and the provider of the JMS driver.
_QPID_JMS: Final = "qpid-jms"


class JmsBroker(Program):
    """A broker that comes with a JMS client. It speaks AMQP 1.0 too, so that Qpid JMS can be its client as well."""

    defaults_with: ClassVar[Mapping[str, Mapping[str, str]]] = {"jms": {"client": _OWN}}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no"), "client": (_OWN, _QPID_JMS)}

    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__(settings)
        if self.uses_qpid_jms:
            self.parts = (*self.parts, QPID_JMS)

    @property
    def uses_qpid_jms(self) -> bool:
        return self.driver == "jms" and self.chosen("client") == _QPID_JMS

    @property
    @abstractmethod
    def own_jars(self) -> str:
        """The class path of the client that it comes with."""

    @property
    def jars(self) -> str:
        return str(path_of(QPID_JMS)) if self.uses_qpid_jms else self.own_jars

    @property
    def jms_options(self) -> Mapping[str, str]:
        return {"provider": _QPID_JMS if self.uses_qpid_jms else self.name, "jars": self.jars}

    def journal_durability(self, *, unsynced: Syncs, removal: str = "") -> Durability:
        """`unsynced`: whether it syncs without the setting `sync`. `removal`: a phrase about removed messages."""
        synced, jms = self.chosen("sync") == "yes", self.driver == "jms"
        acknowledged, replies = (
            "when the consumer asks for the next message, acknowledges or commits",
            "on a queue shared by all; each requester has one consumer with a selector for its correlation ids",
        )
        if jms:
            acknowledged = "auto: at delivery to the consumer; else when the consumer acknowledges or commits"
            replies = "on a queue shared by all, by a selector on the correlation id"
        return Durability(
            syncs="before confirming" if synced else unsynced,
            persistent=f"written to the journal{' and synced' if synced else ', not synced'}"
            + ("; a confirmed batch is a transaction" if jms and not self.uses_qpid_jms else ""),
            confirmed="in the queues, in memory",
            acknowledged=acknowledged + removal,
            replies=replies,
        )


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
