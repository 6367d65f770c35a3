"""Peers that do nothing: they take and confirm all that is sent, and deliver one message again and again.

What a driver reaches with its null peer is the most that it can ever measure of a system.
"""

from typing import Final

from mqlab.drivers.nulls.base import NullPeer
from mqlab.registry import Registry

NULLS: Final[Registry[NullPeer]] = Registry("mqlab.nulls", {
    "amqp": "mqlab.drivers.nulls.amqp:AmqpNull",
    "amqp10": "mqlab.drivers.nulls.amqp10:Amqp10Null",
    "jms": "mqlab.drivers.nulls.jms:JmsNull",
    "kafka": "mqlab.drivers.nulls.kafka:KafkaNull",
    "mqtt": "mqlab.drivers.nulls.mqtt:MqttNull",
    "mqtt3": "mqlab.drivers.nulls.mqtt:MqttNull",
    "native": "mqlab.drivers.nulls.native:NativeNull",
    "nats": "mqlab.drivers.nulls.nats:NatsNull",
    "resp": "mqlab.drivers.nulls.resp:RespNull",
    "stomp": "mqlab.drivers.nulls.stomp:StompNull",
})  # fmt: skip

__all__ = ["NULLS", "NullPeer"]
