"""Null servers: they confirm all that a driver sends, keep nothing, and deliver one batch again and again.

The rate that a driver reaches with its null server is the most that it can measure of any system. Another package adds
one by an entry point of the group `mqlab.null_servers`.
"""

from typing import Final

from mqlab.drivers.null_server.api import NullServer
from mqlab.registry import Registry

NULL_SERVERS: Final[Registry[NullServer]] = Registry("mqlab.null_servers", {
    "amqp": "mqlab.drivers.amqp.null_server:AmqpNullServer",
    "amqp10": "mqlab.drivers.amqp10.null_server:Amqp10NullServer",
    "jms": "mqlab.drivers.jms.null_server:JmsNullServer",
    "kafka": "mqlab.drivers.kafka.null_server:KafkaNullServer",
    "mqtt": "mqlab.drivers.mqtt.null_server:MqttNullServer",
    "mqtt3": "mqlab.drivers.mqtt.null_server:MqttNullServer",
    "native": "mqlab.drivers.native.null_server:NativeNullServer",
    "nats": "mqlab.drivers.nats.null_server:NatsNullServer",
    "resp": "mqlab.drivers.redis.null_server:RedisNullServer",
    "stomp": "mqlab.drivers.stomp.null_server:StompNullServer",
}, former_group="mqlab.nulls")  # fmt: skip

__all__ = ["NULL_SERVERS", "NullServer"]
