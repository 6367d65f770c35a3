"""Peers that do nothing: they take and confirm all that is sent, and deliver one message again and again.

What a driver reaches with its null peer is the most that it can ever measure of a system.
"""

from collections.abc import Mapping
from typing import Final

from mqlab.drivers.nulls.base import NullPeer
from mqlab.registry import Registry

NULLS: Final[Registry[NullPeer]] = Registry("mqlab.nulls", {
    "amqp": "mqlab.drivers.nulls.amqp:AmqpNull",
    "mqtt": "mqlab.drivers.nulls.mqtt:MqttNull",
    "mqtt3": "mqlab.drivers.nulls.mqtt:MqttNull",
    "native": "mqlab.drivers.nulls.native:NativeNull",
    "nats": "mqlab.drivers.nulls.nats:NatsNull",
    "resp": "mqlab.drivers.nulls.resp:RespNull",
    "stomp": "mqlab.drivers.nulls.stomp:StompNull",
})  # fmt: skip

# Why a driver has none.
WITHOUT: Final[Mapping[str, str]] = {
    "amqp10": "its library speaks AMQP 1.0, and a peer made of the same library would be no faster than the client",
    "jms": "each provider's library speaks a protocol of its own",
    "kafka": "its library asks a cluster for far more than to take and deliver messages",
}

__all__ = ["NULLS", "WITHOUT", "NullPeer"]
