"""How a role talks to a system: one interface of batch verbs (`base`), one file a protocol.

A driver moves message bodies; what is in them, when they are sent and what is recorded is `load`'s. Another package
adds one by an entry point of the group `mqlab.drivers`.
"""

from typing import Final

from mqlab.drivers.api import (
    Arrival,
    Connection,
    Driver,
    DriverError,
    Receiver,
    Receiving,
    Reply,
    Requester,
    Responder,
    Sender,
)
from mqlab.registry import Registry

# Named, not imported: some need a library that is not always there.
DRIVERS: Final[Registry[Driver]] = Registry("mqlab.drivers", {
    "amqp": "mqlab.drivers.amqp.driver:AmqpDriver",
    "amqp10": "mqlab.drivers.amqp10.driver:Amqp10Driver",
    "jms": "mqlab.drivers.jms.driver:JmsDriver",
    "mqtt": "mqlab.drivers.mqtt.driver:MqttDriver",
    "mqtt3": "mqlab.drivers.mqtt.driver:Mqtt3Driver",
    "kafka": "mqlab.drivers.kafka.driver:KafkaDriver",
    "native": "mqlab.drivers.native.driver:NativeDriver",
    "nats": "mqlab.drivers.nats.driver:NatsDriver",
    "resp": "mqlab.drivers.redis.driver:RespDriver",
    "stomp": "mqlab.drivers.stomp.driver:StompDriver",
})  # fmt: skip

__all__ = [
    "DRIVERS",
    "Arrival",
    "Connection",
    "Driver",
    "DriverError",
    "Receiver",
    "Receiving",
    "Reply",
    "Requester",
    "Responder",
    "Sender",
]
