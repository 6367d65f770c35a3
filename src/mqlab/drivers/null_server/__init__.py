"""Peers that do nothing: they take and confirm all that is sent, and deliver one message again and again.

What a driver reaches with its null peer is the most that it can ever measure of a system.
"""

from typing import Final

from mqlab.drivers.null_server.api import NullPeer
from mqlab.registry import Registry

NULLS: Final[Registry[NullPeer]] = Registry("mqlab.nulls", {
    "amqp": "mqlab.drivers.amqp.null_server:AmqpNull",
    "amqp10": "mqlab.drivers.amqp10.null_server:Amqp10Null",
    "jms": "mqlab.drivers.jms.null_server:JmsNull",
    "kafka": "mqlab.drivers.kafka.null_server:KafkaNull",
    "mqtt": "mqlab.drivers.mqtt.null_server:MqttNull",
    "mqtt3": "mqlab.drivers.mqtt.null_server:MqttNull",
    "native": "mqlab.drivers.native.null_server:NativeNull",
    "nats": "mqlab.drivers.nats.null_server:NatsNull",
    "resp": "mqlab.drivers.redis.null_server:RespNull",
    "stomp": "mqlab.drivers.stomp.null_server:StompNull",
})  # fmt: skip

__all__ = ["NULLS", "NullPeer"]
