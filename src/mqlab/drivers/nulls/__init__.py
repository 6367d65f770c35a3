"""Peers that do nothing: they take and confirm all that is sent, and deliver one message again and again.

What a driver reaches with its null peer is the most that it can ever measure of a system. A protocol that a library of
its own speaks (Kafka, JMS, AMQP 1.0) has none here.
"""

from typing import Final

from mqlab.drivers.nulls.base import NullPeer
from mqlab.registry import Registry

NULLS: Final[Registry[NullPeer]] = Registry("mqlab.nulls", {
    "amqp": "mqlab.drivers.nulls.amqp:AmqpNull",
    "mqtt": "mqlab.drivers.nulls.mqtt:MqttNull",
    "mqtt3": "mqlab.drivers.nulls.mqtt:MqttNull",
    "native": "mqlab.drivers.nulls.native:NativeNull",
    "nats": "mqlab.drivers.nulls.nats:NatsNull",
    "stomp": "mqlab.drivers.nulls.stomp:StompNull",
})  # fmt: skip

__all__ = ["NULLS", "NullPeer"]
