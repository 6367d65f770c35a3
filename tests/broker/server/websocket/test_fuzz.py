"""Messages with anything in them, cut anywhere and damaged: only an ERROR comes of it, and the broker goes on."""

import asyncio
import random
from pathlib import Path

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Request, TextMessage

from broker.server.raw_client import in_loop, local, traced
from broker.server.stomp.stomp_clients import frame
from broker.server.stomp.test_fuzz import Sayings, Socket
from mqlab.broker import limits
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.server.websocket.connection import WebSocketConnection
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder

from .websocket_client import Web


@pytest.fixture(autouse=True)
def _in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """These clients have no event loop: all that they say is handled at once, however slow the machine is."""
    monkeypatch.setattr(limits, "TURN_NS", 10**12)


class Peer:
    """The other side of a connection that has no socket."""

    def __init__(self, broker: Broker, chance: random.Random) -> None:
        self._chance = chance
        self.socket, self.protocol = Socket(), WebSocketConnection(broker)
        self._connection = WSConnection(ConnectionType.CLIENT)
        self._read = 0
        self.protocol.connection_made(self.socket)
        self.feed(self._connection.send(Request("x", "/")))
        assert len(self.heard()) == 1

    def feed(self, data: bytes) -> None:
        while data:
            size = self._chance.choice((1, 7, 60, 10_000))
            self.protocol.data_received(data[:size])
            data = data[size:]

    def written(self, data: bytes) -> bytes:
        """In messages, which are cut anywhere, with pings between the parts."""
        chance, written = self._chance, b""
        while data:
            size = chance.choice((0, 1, 20, 5000))
            part, data = data[:size], data[size:]
            written += self._connection.send(BytesMessage(part, message_finished=not data or chance.random() < 0.5))
            if chance.random() < 0.2:
                written += self._connection.send(Ping(chance.randbytes(chance.randrange(126))))
        if chance.random() < 0.3:
            written += self._connection.send(CloseConnection(chance.choice((1000, 1001, 3000)), "bye"))
        return written

    def heard(self) -> list[Event]:
        new, self._read = self.socket.written[self._read :], len(self.socket.written)
        self._connection.receive_data(new)
        return [*self._connection.events()]


def frames_of(events: list[Event]) -> bytes:
    return b"".join(
        one.data.encode() if isinstance(one, TextMessage) else bytes(one.data)
        for one in events
        if isinstance(one, TextMessage | BytesMessage)
    )


def talk(broker: Broker, chance: random.Random) -> None:
    peer = Peer(broker, chance)
    connect = frame("CONNECT", **{"accept-version": chance.choice(("1.0", "1.1", "1.2"))})
    peer.feed(peer._connection.send(TextMessage(connect.decode())))
    [connected] = StompFrameDecoder(Limits()).feed(frames_of(peer.heard()))
    sayings = Sayings(chance, connected.headers["session"])
    said = peer.written(b"".join([sayings.next() for _ in range(20)]))
    if chance.random() < 0.4:
        at = chance.randrange(len(said))
        said = said[:at] + chance.randbytes(1) + said[at + chance.randrange(2) :]
    peer.feed(said)
    events = peer.heard()
    heard = [*StompFrameDecoder(Limits(), connected.headers["version"]).feed(frames_of(events))]
    errors = [one for one in heard if one.command == "ERROR"]
    # Nothing is said after an error but the end.
    assert len(errors) <= 1
    assert not errors or heard[-1] is errors[0]
    ends = [one for one in events if isinstance(one, CloseConnection)]
    assert len(ends) <= 1
    assert not ends or events[-1] is ends[0]
    assert bool(ends) is not peer.socket.open
    assert not errors or ends
    peer.protocol.connection_lost(None)


async def still_here(broker: Broker, web: Web) -> None:
    await asyncio.sleep(0)
    assert not broker.failure.done()
    assert not broker.observer_errors.count
    assert len(broker.connections) == 1
    await web.done()


@pytest.mark.parametrize("seed", range(6))
@in_loop
async def test_whatever_is_said(seed: int, tmp_path: Path) -> None:
    async with running(local(data=tmp_path / "data", **traced(tmp_path, seed % 2 == 1))) as (broker, (address,)):
        web = await Web.connect(address)
        for number in range(50):
            talk(broker, random.Random(seed * 1000 + number))
            await asyncio.sleep(0)
        await still_here(broker, web)


@pytest.mark.parametrize("seed", range(2))
@in_loop
async def test_any_bytes(seed: int) -> None:
    chance = random.Random(seed)
    async with running(local()) as (broker, (address,)):
        web = await Web.connect(address)
        for _ in range(300):
            peer = Peer(broker, chance)
            # The first byte decides most.
            first = chance.choice((0x81, 0x82, 0x01, 0x88, 0x89, chance.randrange(256)))
            peer.feed(bytes([first]) + chance.randbytes(200))
            assert sum(isinstance(one, CloseConnection) for one in peer.heard()) <= 1
            peer.protocol.connection_lost(None)
        await still_here(broker, web)
