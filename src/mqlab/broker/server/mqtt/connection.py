"""The connection of an MQTT client. `state_table` says what happens to each packet."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from mqlab.broker import limits
from mqlab.broker.core.errors import CommandError
from mqlab.broker.server.access import owner_name
from mqlab.broker.server.adapter.connection import Action, ProtocolConnection
from mqlab.broker.server.adapter.heartbeats import Heartbeats
from mqlab.broker.server.adapter.producers import PLAIN
from mqlab.broker.server.adapter.state_table import NO_INPUT, Row, resolved
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.mqtt.components import MqttComponents
from mqlab.broker.server.mqtt.core_connection import MqttCoreConnection
from mqlab.broker.server.mqtt.deliveries import Deliveries
from mqlab.broker.server.mqtt.handshake import parse_connect
from mqlab.broker.server.mqtt.incoming import IncomingMessages
from mqlab.broker.server.mqtt.publishing import STORED_TOGETHER, parts_of
from mqlab.broker.server.mqtt.state_table import TABLE, MqttStage
from mqlab.broker.server.mqtt.subscriber import Subscriber
from mqlab.broker.server.mqtt.topics import parse_filter
from mqlab.wire.mqtt import packets
from mqlab.wire.mqtt.from_broker import (
    PINGRESP,
    acknowledgements,
    connack,
    disconnect,
    refused,
)
from mqlab.wire.mqtt.from_client import (
    AcknowledgementRun,
    ClientPacket,
    ClientPacketDecoder,
    ConnectPacket,
    DisconnectPacket,
    PingPacket,
    PublishRun,
    SubscribePacket,
    UnsubscribePacket,
)
from mqlab.wire.mqtt.packets import MqttError
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason
from mqlab.wire.native.frames import Frame, Kind


class MqttServerConnection(ProtocolConnection[ClientPacket]):
    violations = (MqttError,)
    _stage: MqttStage
    # The methods for packets in this stage.
    _row: Row[type[ClientPacket]]

    def __init__(self, broker: Broker) -> None:
        native = MqttCoreConnection(broker)
        native.owner = self
        broker.mqtt.open()
        self._c = MqttComponents(broker, self, native)
        super().__init__(broker, native, self._c)
        self._incoming, self._subscriber = IncomingMessages(self._c), Subscriber(self._c)
        self._max_packet = broker.settings.frame_limit - limits.MQTT_HEAD_ROOM
        self._decoder = ClientPacketDecoder(limits.MQTT_CONNECT)
        # Frames of the broker that are not encoded yet.
        self._received: deque[Frame] = deque()
        self._enter(MqttStage.CONNECT)
        # The reason that the client gets when the connection fails.
        self._reason = Reason.UNSPECIFIED_ERROR

    # The protocol

    def _split(self, data: bytes) -> Iterator[ClientPacket]:
        return self._decoder.feed(data)

    def _add(self, decoded: ClientPacket) -> None:
        add = self._row.get(type(decoded))
        if add is None:
            raise MqttViolationError(Reason.PROTOCOL_ERROR, f"a {type(decoded).__name__} was not expected")
        add(self, decoded)

    def _enter(self, stage: MqttStage) -> None:
        self._stage, self._row = stage, _ROWS.get(stage, NO_INPUT)

    def _add_messages(self, run: PublishRun) -> None:
        for part in parts_of(run):
            self._actions += self._incoming.add(part)

    def _add_acknowledgements(self, run: AcknowledgementRun) -> None:
        self._actions += self._incoming.finish_batch()
        together = len(run.ids) if run.kind == packets.PUBACK else STORED_TOGETHER
        for begin in range(0, len(run.ids), together):
            ids = run.ids[begin : begin + together]
            self._actions.append(partial(self._acknowledged, run._replace(ids=ids)))

    def _add_connect(self, packet: ConnectPacket) -> None:
        self._actions.append(partial(self._connect, packet))

    def _add_subscribe(self, packet: SubscribePacket) -> None:
        self._add_after_batch(partial(self._subscriber.subscribe, packet))

    def _add_unsubscribe(self, packet: UnsubscribePacket) -> None:
        self._add_after_batch(partial(self._subscriber.unsubscribe, packet))

    def _add_ping(self, _: PingPacket) -> None:
        self._add_after_batch(self._ping)

    def _add_disconnect(self, packet: DisconnectPacket) -> None:
        self._add_after_batch(partial(self._disconnect, packet))

    def _add_after_batch(self, action: Action) -> None:
        self._actions += self._incoming.finish_batch()
        self._actions.append(action)

    def _finish_batch(self) -> Iterable[Action]:
        return self._incoming.finish_batch()

    def _violation_text(self, error: Exception) -> str:
        self._reason = error.reason if isinstance(error, MqttViolationError) else Reason.MALFORMED_PACKET
        return str(error)

    @property
    def _waits(self) -> bool:
        return not self._row

    @property
    def _is_finished(self) -> bool:
        return self._stage is MqttStage.ENDING and self._incoming.receipts.idle

    @property
    def _unfinished_bytes(self) -> int:
        return self._decoder.unfinished

    def _reset(self) -> None:
        self._decoder = ClientPacketDecoder(limits.MQTT_CONNECT)
        self._received.clear()

    def _written(self) -> None:
        if self._c.deliveries is not None:
            self._c.deliveries.settle_written()

    # Frames of the broker

    def frames_received(self, frames: Iterable[Frame]) -> None:
        """Frames may come while another is encoded, which changed the state: those that came before go first."""
        self._received += frames
        super().frames_received(self._next_frames())

    def _next_frames(self) -> Iterator[Frame]:
        while self._received:
            yield self._received.popleft()

    def _encode(self, frame: Frame) -> None:
        kind = frame.kind
        if kind == Kind.DELIVER:
            ranges = self._c.native.message_ids.popleft()
            if self._c.deliveries is not None:
                self._c.deliveries.clock_ms = self._c.core.context.now_ms
                self._c.deliveries.deliver(frame, ranges)
                self._write_deliveries()
        elif kind == Kind.CONFIRM:
            self._incoming.producers.confirmed(frame.link, frame.first)
        elif kind == Kind.CREDIT:
            self._incoming.producers.credit(frame.link, frame.amount)
        elif kind == Kind.ORIGIN:
            self._set_origin(frame)
        elif kind == Kind.OPENED and frame.link:
            self._subscriber.opened(frame.link)
        elif kind == Kind.CLOSED:
            self._incoming.producers.closed(frame.link)
        elif kind == Kind.HELLO:
            self._hello()
        elif kind == Kind.ERROR:
            self._refused(frame)

    def _write_deliveries(self) -> None:
        assert self._c.deliveries is not None
        data = self._c.deliveries.take()
        if data:
            self.write(data)

    def _set_origin(self, frame: Frame) -> None:
        subscription = self._c.deliveries.linked(frame.link) if self._c.deliveries is not None else None
        if subscription is not None:
            subscription.origin = bytes(frame.payload).decode()

    def _refused(self, frame: Frame) -> None:
        """A refused message or subscription has a reason code; any other error ends the connection."""
        document = frame.json()
        is_denied = document.get("code") == "denied"
        reason = Reason.NOT_AUTHORIZED if is_denied else Reason.QUOTA_EXCEEDED
        subscription = self._c.deliveries.linked(frame.link) if self._c.deliveries is not None else None
        if subscription is not None:
            self._subscriber.refuse(subscription, reason)
        elif frame.link:
            self._incoming.refused(frame, reason)
        else:
            self._fail(str(document.get("code", "")), str(document.get("message", "")))

    def _fail(self, code: str, message: str) -> None:
        """The native connection ends: tell the client why, once."""
        if self._c.failed:
            return
        if not self._c.logged_in:
            reason = Reason.BAD_USER_OR_PASSWORD if code == "login" else self._reason
            if self._c.request is not None or reason is Reason.UNSUPPORTED_VERSION:
                self._write_connack(reason, message)
        elif self._c.version == 5:
            self.write(disconnect(self._reason, message if self._wants_texts else ""))
        self._c.failed = True

    def _write_connack(self, reason: Reason, message: str) -> None:
        version = self._c.request.version if self._c.request is not None else self._decoder.version
        properties: dict[int, Any] = {Property.REASON_STRING: message} if message and self._wants_texts else {}
        self.write(connack(version, reason, present=False, properties=properties))

    @property
    def _wants_texts(self) -> bool:
        return self._c.request is not None and self._c.request.wants_texts

    # Login

    def _connect(self, packet: ConnectPacket) -> bool:
        try:
            self._c.request = parse_connect(packet, self._c.clock_ms(), self._max_packet)
        except MqttViolationError as error:
            self.write(connack(packet.version, error.reason, present=False, properties={}))
            self._c.failed = True
            self.refuse(str(error))
            return True
        self._enter(MqttStage.LOGIN)
        self._c.commands.add_json(Kind.HELLO, self._c.request.hello)
        return True

    def _hello(self) -> None:
        request, native = self._c.request, self._c.native
        assert request is not None
        if request.will is not None:
            try:
                native.check_send(request.will.destination)
            except CommandError as error:
                self.refuse_with(Reason.NOT_AUTHORIZED, str(error))
                return
        try:
            self._c.session, present = self._c.mqtt.attach(
                owner_name(native.user), request.client_id, self, clean_start=request.clean_start,
                expiry_s=request.expiry_s, will=request.will,
            )  # fmt: skip
        except MqttViolationError as error:
            self.refuse_with(error.reason, str(error))
            return
        self._c.logged_in = True
        self._enter(MqttStage.OPEN)
        self._decoder.max_packet = self._max_packet
        self.write(connack(request.version, Reason.SUCCESS, present=present, properties=request.granted))
        self._heartbeats = Heartbeats(0, request.timeout_s, lambda: None, self._timed_out)
        commands = self._c.commands
        commands.add_json(Kind.OPEN_SESSION, {"transacted": False}, session=PLAIN)
        self._c.deliveries = Deliveries(commands, self._c.session, request.version, request.most)
        if self._c.session.released:
            self.write(acknowledgements(packets.PUBREL, [*self._c.session.released]))
        for written, options in self._c.session.subscriptions.items():
            self._subscriber.open_consumer(parse_filter(written), options)

    def _timed_out(self) -> None:
        self.refuse_with(Reason.KEEP_ALIVE_TIMEOUT, "no packet arrived in time")

    # Acknowledgements

    def _acknowledged(self, run: AcknowledgementRun) -> bool:
        deliveries = self._c.deliveries
        assert deliveries is not None
        deliveries.clock_ms = self._c.core.context.now_ms
        if run.kind == packets.PUBACK or (run.kind == packets.PUBREC and run.reason >= packets.REFUSED):
            deliveries.acknowledged(run.ids)
        elif run.kind == packets.PUBREC:
            for number in run.ids:
                self._delivered(number)
        elif run.kind == packets.PUBREL:
            for number in run.ids:
                self._incoming.released(number)
        else:
            for number in run.ids:
                if deliveries.completed(number) and self._c.session is not None:
                    self._c.mqtt.forget_released(self._c.session, number)
        self._write_deliveries()
        return True

    def _delivered(self, number: int) -> None:
        """PUBREC: the client has a message with QoS 2."""
        assert self._c.deliveries is not None and self._c.session is not None  # noqa: PT018 - both are set by the login
        message = self._c.deliveries.received(number)
        if message is None:
            unknown = refused(packets.PUBREL, number, Reason.PACKET_ID_NOT_FOUND)
            self.write(unknown if self._c.version == 5 else acknowledgements(packets.PUBREL, (number,)))
            return
        answer = partial(self.write_later, acknowledgements(packets.PUBREL, (number,)))
        if message.released or message.subscription is None:
            answer()
            return
        written = message.subscription.filter.written
        self._c.mqtt.release(self._c.session, number, written, message.message_id, answer)

    def _ping(self) -> bool:
        self.write(PINGRESP)
        return True

    def _disconnect(self, packet: DisconnectPacket) -> bool:
        session = self._c.session
        assert session is not None
        expiry_s = packet.properties.get(Property.SESSION_EXPIRY)
        if expiry_s is not None:
            if expiry_s and not session.durable:
                raise MqttViolationError(Reason.PROTOCOL_ERROR, "a session that ends now cannot be kept")
            session.expiry_s = expiry_s
        if packet.reason != Reason.DISCONNECT_WITH_WILL:
            session.will = None
        self._enter(MqttStage.ENDING)
        return True

    # For its parts

    def write_later(self, data: bytes) -> None:
        if data:
            self.write(data)
        if not self._is_running:
            self._write_out()

    def refuse_with(self, reason: Reason, message: str) -> None:
        self._reason = reason
        self.refuse(message)

    def send_commands(self) -> None:
        self._send_commands()

    # For the native connection

    def unsent(self) -> list[tuple[int, int, int]]:
        return [] if self._c.deliveries is None else self._c.deliveries.unsent()

    def dropped(self, *, taken_over: bool) -> None:
        """Tell the client why its connection ends, and end it."""
        if self._c.logged_in and self._c.version == 5 and not self._c.failed:
            self.write(disconnect(Reason.SESSION_TAKEN_OVER if taken_over else Reason.SERVER_SHUTTING_DOWN))
        self._c.failed = True
        self._leave()

    def lost(self) -> None:
        session, self._c.session = self._c.session, None
        self._c.deliveries = None
        if session is not None:
            self._c.mqtt.detach(session, self)


_ROWS: Final = resolved(TABLE, MqttServerConnection)
