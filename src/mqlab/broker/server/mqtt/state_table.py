"""The stages of an MQTT connection, and what happens to each packet in each stage."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from mqlab.wire.mqtt.from_client import (
    AcknowledgementRun,
    ClientPacket,
    ConnectPacket,
    DisconnectPacket,
    PingPacket,
    PublishRun,
    SubscribePacket,
    UnsubscribePacket,
)


class MqttStage(Enum):
    CONNECT = auto()
    # The broker checks the password.
    LOGIN = auto()
    OPEN = auto()
    # The client has sent DISCONNECT.
    ENDING = auto()


# By stage and packet: the method of `MqttServerConnection`.
TABLE: Final[Mapping[MqttStage, Mapping[type[ClientPacket], str]]] = {
    MqttStage.CONNECT: {ConnectPacket: "_add_connect"},
    MqttStage.OPEN: {
        PublishRun: "_add_messages",
        AcknowledgementRun: "_add_acknowledgements",
        SubscribePacket: "_add_subscribe",
        UnsubscribePacket: "_add_unsubscribe",
        PingPacket: "_add_ping",
        DisconnectPacket: "_add_disconnect",
    },
}
