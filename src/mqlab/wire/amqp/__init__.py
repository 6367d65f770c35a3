"""AMQP 0-9-1 for clients: methods, batches of messages, and the handshake."""

from mqlab.wire.amqp.content import AmqpPublisher, AmqpReplyProperties, reply_properties
from mqlab.wire.amqp.decoder import MAX_BODY, AmqpDecoder, DeliveryBatch
from mqlab.wire.amqp.handshake import PROTOCOL_HEADER, AmqpHandshake
from mqlab.wire.amqp.methods import Method, method
from mqlab.wire.amqp.values import AmqpError, Table

__all__ = [
    "MAX_BODY",
    "PROTOCOL_HEADER",
    "AmqpDecoder",
    "AmqpError",
    "AmqpHandshake",
    "AmqpPublisher",
    "AmqpReplyProperties",
    "DeliveryBatch",
    "Method",
    "Table",
    "method",
    "reply_properties",
]
