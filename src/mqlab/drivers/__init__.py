"""Drivers: how the roles of an agent talk to a system. `api` is the contract; each protocol has a folder.

Each folder has the same modules: `driver` (driver and connection of the contract), `client` (the protocol's connection
to the system), `links` (sender and receiver) and `request_reply` (requester and responder).
Another package adds a driver by an entry point of the group `mqlab.drivers`.
"""

import warnings
from typing import Final

from mqlab.drivers.api import (
    Driver,
    DriverConnection,
    DriverError,
    DriverRequester,
    ReceivedBatch,
    Receiver,
    ReceiverOptions,
    Reply,
    RequestBatch,
    RequestHandler,
    Responder,
    Sender,
)
from mqlab.registry import Registry

# By name, not imported: some need a library that is not always installed.
DRIVERS: Final[Registry[Driver]] = Registry("mqlab.drivers", {
    "amqp": "mqlab.drivers.amqp.driver:AmqpDriver",
    "amqp10": "mqlab.drivers.amqp10.driver:Amqp10Driver",
    "jms": "mqlab.drivers.jms.driver:JmsDriver",
    "mqtt": "mqlab.drivers.mqtt.driver:MqttDriver",
    "mqtt3": "mqlab.drivers.mqtt.driver:Mqtt3Driver",
    "kafka": "mqlab.drivers.kafka.driver:KafkaDriver",
    "native": "mqlab.drivers.native.driver:NativeDriver",
    "nats": "mqlab.drivers.nats.driver:NatsDriver",
    "resp": "mqlab.drivers.redis.driver:RedisDriver",
    "stomp": "mqlab.drivers.stomp.driver:StompDriver",
})  # fmt: skip

__all__ = [
    "DRIVERS",
    "Driver",
    "DriverConnection",
    "DriverError",
    "DriverRequester",
    "ReceivedBatch",
    "Receiver",
    "ReceiverOptions",
    "Reply",
    "RequestBatch",
    "RequestHandler",
    "Responder",
    "Sender",
]
_FORMER_NAMES: Final[dict[str, type]] = {
    "Arrival": ReceivedBatch, "Receiving": ReceiverOptions,
    "Connection": DriverConnection, "Requester": DriverRequester,
}  # fmt: skip


def __getattr__(name: str) -> type:
    if name not in _FORMER_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"mqlab.drivers.{name} is now {_FORMER_NAMES[name].__name__}", DeprecationWarning, stacklevel=2)
    return _FORMER_NAMES[name]
