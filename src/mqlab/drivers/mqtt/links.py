"""What a role holds of an MQTT session: the ends that send and receive, and both for request and reply."""

from collections.abc import Sequence
from typing import Final

from mqlab.drivers.api import (
    DriverError,
    Matrix,
    Properties,
    ReceivedBatch,
    Receiver,
    Reply,
    Requester,
    Responder,
    Sender,
)
from mqlab.drivers.common.pieces import arrival_of
from mqlab.drivers.mqtt.session import Session
from mqlab.wire.mqtt import MqttPublisher, reply_properties

# Bytes of one write: a batch of big messages is not built as a whole.
_WRITE_SIZE: Final = 256 * 1024


class MqttSender(Sender):
    """QoS 1 where messages are persistent or somebody waits for them, else QoS 0."""

    def __init__(self, session: Session, topic: str, *, persistent: bool) -> None:
        self._session = session
        self._publishing = [MqttPublisher(session.version, topic, qos=qos) for qos in (0, 1)]
        self._persistent = persistent

    async def send(self, bodies: Matrix, *, wait: bool, properties: Properties | None = None) -> None:
        if properties is not None:
            raise DriverError("properties are for selectors, and MQTT has none")
        qos = int(wait or self._persistent)
        publishing, session = self._publishing[qos], self._session
        most = max(1, _WRITE_SIZE // publishing.row_size(bodies.shape[1]))
        first = 0
        while first < len(bodies):
            rows, ids = min(most, len(bodies) - first), None
            if qos:
                ids = await session.numbers(rows)
                rows = len(ids)
            await session.publish(publishing.batch(bodies[first : first + rows], ids))
            first += rows
        if wait:
            await session.confirmed()

    async def commit(self) -> None:
        raise DriverError("MQTT has no transactions")

    async def close(self) -> None:
        await self._session.confirmed()
        await self._session.taken()
        await self._session.close()


class MqttReceiver(Receiver):
    """`lazily`: so many messages may be acknowledged late."""

    def __init__(self, session: Session, lazily: int) -> None:
        self._session = session
        self._lazily = lazily
        self._owed: list[bytes] = []
        self._rows_owed = 0

    async def receive(self) -> ReceivedBatch:
        if self._rows_owed > self._lazily:
            self._acknowledge()
        pieces = await self._session.arrived()
        arrival = arrival_of(pieces)
        self._owed += [piece.ids for piece in pieces if piece.ids]
        self._rows_owed += len(arrival.bodies)
        return arrival

    async def commit(self) -> None:
        raise DriverError("MQTT has no transactions")

    async def close(self) -> None:
        if self._session.failed is None:
            self._acknowledge()
        await self._session.close()

    def _acknowledge(self) -> None:
        self._session.acknowledge(b"".join(self._owed))
        self._owed, self._rows_owed = [], 0


class MqttRequester(Requester):
    """Has a topic of its own for its replies."""

    def __init__(self, session: Session, topic: str, response_topic: str, *, persistent: bool) -> None:
        self._session = session
        self._publishing = MqttPublisher(session.version, topic, qos=int(persistent))
        self._response_topic = response_topic
        self._persistent = persistent

    async def request(self, body: bytes, correlation_id: str) -> Reply:
        session, wanted = self._session, correlation_id.encode()
        number = (await session.numbers(1)).item() if self._persistent else 0
        await session.publish(self._publishing.message(body, number, wanted, self._response_topic))
        while True:
            pieces = await session.arrived(is_reply=True)
            session.acknowledge(b"".join([piece.ids for piece in pieces]))
            for piece in pieces:
                # Another one is late: that to a request which was given up.
                if reply_properties(piece.properties).correlation == wanted:
                    return Reply(piece.data, piece.redelivered)

    async def close(self) -> None:
        await self._session.close()


class MqttResponder(Responder):
    def __init__(self, session: Session, *, persistent: bool) -> None:
        self._session = session
        self._qos = int(persistent)
        self._publishing: dict[str, MqttPublisher] = {}
        # Where and as what each request of the last arrival wants its reply.
        self._wanted: list[tuple[bytes, str]] = []
        self._owed = b""

    async def receive(self) -> ReceivedBatch:
        self._session.acknowledge(self._owed)
        self._owed = b""
        pieces = await self._session.arrived()
        self._owed = b"".join([piece.ids for piece in pieces])
        self._wanted = []
        for piece in pieces:
            correlation, response_topic = reply_properties(piece.properties)
            if not response_topic or not correlation:
                raise DriverError("a request does not say where its reply should go, or as what")
            self._wanted += [(correlation, response_topic)] * piece.rows
        return arrival_of(pieces)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        session, packets = self._session, []
        for body, (correlation, topic) in zip(bodies, self._wanted, strict=True):
            number = (await session.numbers(1)).item() if self._qos else 0
            packets.append(self._to(topic).message(body, number, correlation))
        await session.publish(b"".join(packets))
        if wait:
            await session.confirmed()

    async def close(self) -> None:
        if self._session.failed is None:
            self._session.acknowledge(self._owed)
        await self._session.confirmed()
        await self._session.taken()
        await self._session.close()

    def _to(self, topic: str) -> MqttPublisher:
        publishing = self._publishing.get(topic)
        if publishing is None:
            publishing = self._publishing[topic] = MqttPublisher(self._session.version, topic, qos=self._qos)
        return publishing
