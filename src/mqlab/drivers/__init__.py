"""How a role talks to a system: one interface of batch verbs (`base`), one file a protocol.

A driver moves message bodies; what is in them, when they are sent and what is recorded is `load`'s. Another package
adds one by an entry point of the group `mqlab.drivers`.
"""

from typing import Final

from mqlab.drivers.base import (
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
    "amqp": "mqlab.drivers.amqp:AmqpDriver",
    "amqp10": "mqlab.drivers.amqp10:Amqp10Driver",
    "jms": "mqlab.drivers.jms:JmsDriver",
    "mqtt": "mqlab.drivers.mqtt:MqttDriver",
    "mqtt3": "mqlab.drivers.mqtt:Mqtt3Driver",
    "kafka": "mqlab.drivers.kafka:KafkaDriver",
    "native": "mqlab.drivers.native:NativeDriver",
    "nats": "mqlab.drivers.nats:NatsDriver",
    "resp": "mqlab.drivers.resp:RespDriver",
    "stomp": "mqlab.drivers.stomp:StompDriver",
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
