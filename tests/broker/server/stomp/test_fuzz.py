"""Frames with anything in them, cut anywhere: only an ERROR comes of it, and the broker goes on."""

import asyncio
import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.server.raw_client import client, in_loop, local, traced
from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp.connection import StompServerConnection
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder

from .stomp_clients import frame


@pytest.fixture(autouse=True)
def _in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """These clients have no event loop: all that they say is handled at once, however slow the machine is."""
    monkeypatch.setattr(limits, "TURN_NS", 10**12)


class Socket(asyncio.Transport):
    """Takes everything. What it is told of is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.open = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.written += b"".join(list_of_data)

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.open = False

    abort = close

    def is_closing(self) -> bool:
        return not self.open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


# Headers with values that are fine, mostly.
OF_MESSAGES: dict[str, tuple[str, ...]] = {
    "receipt": ("r", "q"), "persistent": ("true", "false"), "priority": ("9", "0"), "expires": ("0", "1"), "a": ("1",),
    "ttl": ("5",), "delay": ("1",), "JMSXGroupID": ("g", "h"), "reply-to": ("/temp-queue/t", "/queue/b", "me"),
    "content-type": ("text/plain",), "JMSMessageID": ("ID:" + "0" * 32, "x"), "duplicate-id": ("1", "2"), "é": ("é",),
}  # fmt: skip
OF_SUBSCRIPTIONS: dict[str, tuple[str, ...]] = {
    "receipt": ("r",), "ack": ("auto", "client", "client-individual"), "prefetch": ("1", "3", "0"),
    "selector": ("a = 1", "a LIKE 'x'"),
}  # fmt: skip
DESTINATIONS = ("/queue/a", "/queue/b", "/topic/a", "/temp-queue/t", "queue:a")
WRONG = ("", "x", "-1", "(", "/topic/#", "/queue/temporary.1", "99999999999")


class Sayings:
    """Frames that make sense after those before them, mostly."""

    def __init__(self, chance: random.Random, tag: str) -> None:
        self._chance = chance
        self._tag = tag
        self._number = 0
        self._transactions: list[str] = []
        self._subscriptions: list[str] = []

    def next(self) -> bytes:
        chance = self._chance
        sayings = (self._send, self._send, self._subscribe, self._settle, self._settle, self._end, self._begin)
        command, headers, body = chance.choice(sayings)()
        if chance.random() < 0.03:
            headers[chance.choice([*headers])] = chance.choice(WRONG)
        return frame(command, body, **headers) * chance.choice((1, 1, 1, 20) if command == "SEND" else (1,))

    def _chosen(self, headers: dict[str, tuple[str, ...]]) -> dict[str, str]:
        names = self._chance.sample([*headers], self._chance.randrange(4))
        return {name: self._chance.choice(headers[name]) for name in names}

    def _within(self) -> dict[str, str]:
        wanted = self._transactions and self._chance.random() < 0.4
        return {"transaction": self._chance.choice(self._transactions)} if wanted else {}

    def _send(self) -> tuple[str, dict[str, str], bytes]:
        to = {"destination": self._chance.choice(DESTINATIONS)}
        body = self._chance.randbytes(self._chance.randrange(20))
        return "SEND", to | self._chosen(OF_MESSAGES) | self._within(), body

    def _subscribe(self) -> tuple[str, dict[str, str], bytes]:
        self._number += 1
        self._subscriptions.append(str(self._number))
        about = {"id": str(self._number), "destination": self._chance.choice(DESTINATIONS)}
        return "SUBSCRIBE", about | self._chosen(OF_SUBSCRIPTIONS), b""

    def _settle(self) -> tuple[str, dict[str, str], bytes]:
        which = f"{self._tag}-{self._chance.randrange(1, 6)}-{self._chance.randrange(1, 4)}"
        return self._chance.choice(("ACK", "NACK")), {"id": which, "message-id": which} | self._within(), b""

    def _begin(self) -> tuple[str, dict[str, str], bytes]:
        self._number += 1
        self._transactions.append(str(self._number))
        return "BEGIN", {"transaction": str(self._number)}, b""

    def _end(self) -> tuple[str, dict[str, str], bytes]:
        if self._transactions and self._chance.random() < 0.6:
            which = {"transaction": self._transactions.pop(), "receipt": "r"}
            return self._chance.choice(("COMMIT", "ABORT")), which, b""
        if self._subscriptions:
            return "UNSUBSCRIBE", {"id": self._subscriptions.pop(), "receipt": "r"}, b""
        return self._send()


def talk(broker: Broker, chance: random.Random) -> None:
    socket, protocol = Socket(), StompServerConnection(broker)
    protocol.connection_made(socket)
    protocol.data_received(frame("CONNECT", **{"accept-version": chance.choice(("1.0", "1.1", "1.2"))}))
    [connected] = StompFrameDecoder(Limits()).feed(socket.written)
    sayings = Sayings(chance, connected.headers["session"])
    said = b"".join([sayings.next() for _ in range(30)])
    if chance.random() < 0.3:
        at = chance.randrange(len(said))
        said = said[:at] + chance.randbytes(1) + said[at + chance.randrange(2) :]
    while said and socket.open:
        size = chance.choice((1, 7, 60, 10_000))
        protocol.data_received(said[:size])
        said = said[size:]
    heard = [
        *StompFrameDecoder(Limits(), connected.headers["version"]).feed(
            socket.written[socket.written.index(b"\0") + 1 :]
        )
    ]
    errors = [one.headers["message"] for one in heard if one.command == "ERROR"]
    # Nothing is said after an error, and it is the last of the connection.
    assert len(errors) <= 1
    assert not errors or (heard[-1].command == "ERROR" and not socket.open)
    protocol.connection_lost(None)


@pytest.mark.parametrize("seed", range(8))
@in_loop
async def test_whatever_is_said(seed: int, tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data", **traced(tmp_path, seed % 2 == 1))) as (broker, (address,)):
        for number in range(60):
            talk(broker, random.Random(seed * 1000 + number))
            await asyncio.sleep(0)
        assert not broker.failure.done()
        assert not broker.observer_errors.count
        assert not broker.connections
        connection = await client(address)
        session = await connection.session()
        consumer = await session.consumer("queue:still-here")
        await (await session.producer("queue:still-here")).send(b"x")
        assert (await consumer.receive()).body == b"x"
