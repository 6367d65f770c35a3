"""CONNECT: what the client wants, and what the broker grants."""

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mqlab.broker import limits
from mqlab.broker.core.model.destination_names import BadNameError, check_name
from mqlab.broker.server.mqtt.deliveries import ClientLimits
from mqlab.broker.server.mqtt.messages import check_payload_format, fields_of
from mqlab.broker.server.mqtt.session import FOREVER, Will
from mqlab.broker.server.mqtt.topics import SYS, destination_of
from mqlab.json_values import JsonObject
from mqlab.wire.mqtt.from_client import ConnectPacket
from mqlab.wire.mqtt.packets import Version
from mqlab.wire.mqtt.properties import Property
from mqlab.wire.mqtt.reasons import MqttViolationError, Reason
from mqlab.wire.native import frames as native

_ASSIGNED_BYTES: Final = 10
# A client without traffic for this many keep alive intervals is gone, as the specification says.
_KEEP_ALIVE_INTERVALS: Final = 1.5


class ConnectRequest(NamedTuple):
    version: Version
    client_id: str
    clean_start: bool
    expiry_s: int
    will: Will | None
    most: ClientLimits
    # Seconds without a packet after which the client counts as gone; 0: no limit.
    timeout_s: float
    # Whether the client wants reasons as text.
    wants_texts: bool
    # The properties of CONNACK.
    granted: Mapping[int, Any]
    # The HELLO of the native protocol.
    hello: JsonObject


def parse_connect(packet: ConnectPacket, now_ms: int, max_packet: int) -> ConnectRequest:
    """Raises MqttViolationError."""
    properties, is_5 = packet.properties, packet.version == 5
    if Property.AUTHENTICATION_METHOD in properties:
        raise MqttViolationError(Reason.BAD_AUTHENTICATION_METHOD, "this broker knows users and passwords only")
    granted: dict[int, Any] = {}
    client_id = packet.client_id
    if not client_id:
        if not is_5 and not packet.clean_start:
            raise MqttViolationError(Reason.CLIENT_ID_NOT_VALID, "a session that is kept needs a client id")
        client_id = granted[Property.ASSIGNED_CLIENT_ID] = f"auto-{secrets.token_hex(_ASSIGNED_BYTES)}"
    try:
        check_name(client_id, "a client id")
    except BadNameError as error:
        raise MqttViolationError(Reason.CLIENT_ID_NOT_VALID, str(error)) from None
    keep_alive = packet.keep_alive
    if is_5:
        expiry_s = properties.get(Property.SESSION_EXPIRY, 0)
        if keep_alive > limits.MQTT_KEEP_ALIVE:
            keep_alive = granted[Property.SERVER_KEEP_ALIVE] = limits.MQTT_KEEP_ALIVE
        granted[Property.RECEIVE_MAXIMUM] = limits.MQTT_RECEIVE_MAXIMUM
        granted[Property.MAXIMUM_PACKET_SIZE] = max_packet
        granted[Property.TOPIC_ALIAS_MAXIMUM] = limits.MQTT_TOPIC_ALIASES
    else:
        expiry_s = 0 if packet.clean_start else FOREVER
    most = ClientLimits(
        min(properties.get(Property.RECEIVE_MAXIMUM, limits.MQTT_RECEIVE_MAXIMUM), limits.MQTT_RECEIVE_MAXIMUM),
        properties.get(Property.MAXIMUM_PACKET_SIZE, 0),
        min(properties.get(Property.TOPIC_ALIAS_MAXIMUM, 0), limits.MQTT_TOPIC_ALIASES),
    )
    return ConnectRequest(
        packet.version, client_id, packet.clean_start, expiry_s, _will(packet, now_ms), most,
        keep_alive * _KEEP_ALIVE_INTERVALS, bool(properties.get(Property.REQUEST_PROBLEM_INFORMATION, 1)),
        granted if is_5 else {}, _hello(packet, client_id),
    )  # fmt: skip


def _hello(packet: ConnectPacket, client_id: str) -> JsonObject:
    hello: JsonObject = {"version": native.VERSION, "client_id": client_id, "application": "", "take_over": True}
    if packet.user is not None:
        hello |= {"user": packet.user, "password": (packet.password or b"").decode(errors="replace")}
    return hello


def _will(packet: ConnectPacket, now_ms: int) -> Will | None:
    will = packet.will
    if will is None:
        return None
    if will.topic.startswith(SYS):
        raise MqttViolationError(Reason.NOT_AUTHORIZED, "only the broker sends to its own topics")
    check_payload_format(will.properties, (will.body,))
    properties = dict(will.properties)
    delay_s = properties.pop(Property.WILL_DELAY, 0)
    fields = fields_of(properties, now_ms)
    return Will(destination_of(will.topic), will.body, fields, will.qos, will.retain, delay_s)
