"""Producers that speak MQTT and AMQP 1.0, frame by frame: what they know as confirmed is what the protocol says.

MQTT 5 with QoS 1: PUBACK. QoS 2: PUBCOMP; the client keeps its session, and after a kill it sends again what was not
released, as the specification wants: each message arrives once. AMQP 1.0: the outcome `accepted`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ledger import BODY_SIZE, CONFIRMED, SENT, UNKNOWN, Ledger, bodies
from roles import Producer
from victim import Victim

from mqlab.wire.amqp10.encoder import encode
from mqlab.wire.amqp10.frames import AMQP_HEADER, HEADER_BYTES, AmqpFrameDecoder, frame
from mqlab.wire.amqp10.performatives import (
    Accepted,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
    parse,
    read_performative,
)
from mqlab.wire.amqp10.types import Described
from mqlab.wire.mqtt.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, REFUSED, packet, read_varint, text

# Messages one by one take their consumers longer than batches.
PAUSE = 0.05
_CONNACK, _KEPT = 2, b"\x05\x11\xff\xff\xff\xff"
# The header section of a message: durable.
_DURABLE = encode(Described(0x70, [True]))


class ProtocolProducer(Producer):
    """Sends messages one by one to a queue; some are under way at a time."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    def __init__(self, victim: Victim, ledger: Ledger, number: int, queue: str) -> None:
        super().__init__(victim, ledger, number, f"queue:{queue}", (f"queue:{queue}",), 0)
        self._queue = queue

    async def run(self) -> None:
        while not self.stopping:
            await self._victim.up.wait()
            try:
                path = self._victim.address.removeprefix("unix:")
                self._reader, self._writer = await asyncio.open_unix_connection(path)
                try:
                    await self._open()
                    while not self.stopping:
                        await self._send_some()
                        await asyncio.sleep(PAUSE)
                    await self._end()
                finally:
                    self._writer.transport.abort()
            except (OSError, EOFError):
                # The broker was killed, perhaps before `up` was cleared.
                await asyncio.sleep(0.002)

    async def _open(self) -> None:
        raise NotImplementedError

    async def _send_some(self) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        """All is sent: leave nothing in the broker but the messages."""

    def _bodies(self, first: int, count: int) -> list[bytes]:
        data = bodies(self.number, first, count).tobytes()
        return [data[at : at + BODY_SIZE] for at in range(0, len(data), BODY_SIZE)]

    async def _confirmed(self, first: int, count: int, send: Callable[[], None], wait: Callable[[], Any]) -> None:
        self._ledger.sent(self.number, first, count, SENT)
        try:
            send()
            await wait()
        except (OSError, EOFError):
            self._ledger.sent(self.number, first, count, UNKNOWN)
            raise
        self._ledger.sent(self.number, first, count, CONFIRMED)


class MqttProducer(ProtocolProducer):
    def __init__(self, victim: Victim, ledger: Ledger, number: int, queue: str, qos: int) -> None:
        super().__init__(victim, ledger, number, queue)
        self._qos = qos
        # With QoS 2: first and number of the messages under way, and the packet ids that the broker has received.
        self._under_way = 0, 0
        self._received: set[int] = set()

    async def _open(self) -> None:
        rest = await self._connect(kept=self._qos == 2)
        if self._under_way[1]:
            assert rest[0], "the broker has forgotten a session"
            await self._complete(duplicate=True)

    async def _send_some(self) -> None:
        first, count = self._next_range()
        if self._qos == 1:
            publish = partial(self._publish, first, count, duplicate=False)
            await self._confirmed(first, count, publish, partial(self._all, PUBACK, {*range(1, count + 1)}))
            return
        self._ledger.sent(self.number, first, count, SENT)
        self._under_way, self._received = (first, count), set()
        await self._complete(duplicate=False)

    async def _connect(self, *, kept: bool) -> bytes:
        flags = b"\x05\0\0\0" if kept else b"\x05\x02\0\0"
        self._writer.write(packet(0x10, text("MQTT") + flags + (_KEPT if kept else b"\0") + text(f"p{self.number}")))
        kind, rest = await self._packet()
        assert (kind, rest[1]) == (_CONNACK, 0)
        return rest

    async def _end(self) -> None:
        """The kept session is a message, too."""
        self._writer.transport.abort()
        path = self._victim.address.removeprefix("unix:")
        self._reader, self._writer = await asyncio.open_unix_connection(path)
        await self._connect(kept=False)

    async def _complete(self, *, duplicate: bool) -> None:
        """Bring the messages under way to their end, from wherever they are."""
        first, count = self._under_way
        ids = {*range(1, count + 1)}
        self._publish(first, count, duplicate=duplicate)
        await self._all(PUBREC, ids - self._received)
        self._writer.write(b"".join(packet(PUBREL << 4 | 2, number.to_bytes(2, "big")) for number in ids))
        await self._all(PUBCOMP, ids)
        self._under_way = 0, 0
        self._ledger.sent(self.number, first, count, CONFIRMED)

    def _publish(self, first: int, count: int, *, duplicate: bool) -> None:
        """Those that the broker has received are released instead."""
        head, topic = PUBLISH << 4 | duplicate << 3 | self._qos << 1, text(f"$queue/{self._queue}")
        for number, body in enumerate(self._bodies(first, count), 1):
            if number not in self._received:
                self._writer.write(packet(head, topic + number.to_bytes(2, "big") + b"\0" + body))

    async def _all(self, kind: int, ids: set[int]) -> None:
        """Wait for this packet for each of the packet ids."""
        while ids:
            answer, rest = await self._packet()
            assert answer == kind, (answer, kind)
            number = int.from_bytes(rest[:2], "big")
            # A packet id that the broker does not know any more was released before the kill.
            assert kind == PUBCOMP or len(rest) < 3 or rest[2] < REFUSED, rest
            ids = ids - {number}
            if kind == PUBREC:
                self._received.add(number)

    async def _packet(self) -> tuple[int, bytes]:
        first, length, size = (await self._reader.readexactly(1))[0], b"", -1
        while size < 0:
            length += await self._reader.readexactly(1)
            size, _ = read_varint(length, 0)
        return first >> 4, await self._reader.readexactly(size)


class AmqpProducer(ProtocolProducer):
    async def _open(self) -> None:
        self._decoder, self._delivery, self._credit = AmqpFrameDecoder(1 << 20), 0, 0
        self._writer.write(AMQP_HEADER)
        await self._reader.readexactly(HEADER_BYTES)
        target, source = composite(Target(self._queue)), composite(Source())
        for said in (Open(f"p{self.number}"), Begin(None, 0, 1000, 1000),
                     Attach("a", 0, False, source=source, target=target, initial_delivery_count=0)):  # fmt: skip
            self._write(said)

    async def _send_some(self) -> None:
        first, count = self._next_range()
        begin = self._delivery
        self._delivery += count
        # The broker grants credit for a thousand, and renews it when half of it is used up.
        while self._credit < begin + count:
            await self._read()

        def send() -> None:
            for number, body in enumerate(self._bodies(first, count), begin):
                payload = _DURABLE + bytes((0, 0x53, 0x75)) + encode(body)
                self._write(Transfer(0, number, b"t%d" % number, 0, False), payload)

        self._unsettled = {*range(begin, begin + count)}
        await self._confirmed(first, count, send, self._all_settled)

    async def _all_settled(self) -> None:
        while self._unsettled:
            await self._read()

    async def _read(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            raise EOFError
        self._decoder.feed(data)
        for _, _, body in self._decoder.take_frames():
            said = read_performative(body)[0] if body else None
            if isinstance(said, Flow) and said.handle == 0:
                self._credit = (said.delivery_count or 0) + (said.link_credit or 0)
            elif isinstance(said, Disposition):
                assert isinstance(parse(said.state), Accepted), said
                last = said.first if said.last is None else said.last
                self._unsettled -= {*range(said.first, last + 1)}

    def _write(self, performative: tuple[Any, ...], payload: bytes = b"") -> None:
        self._writer.write(frame(0, encode_performative(performative) + payload))
