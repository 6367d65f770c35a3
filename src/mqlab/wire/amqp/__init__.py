"""AMQP 0-9-1, as far as a client needs it: methods, messages in whole batches, and the opening of a connection."""

from mqlab.wire.amqp.content import Asked, Publishing, asked
from mqlab.wire.amqp.handshake import GREETING, Handshake
from mqlab.wire.amqp.methods import Method, method
from mqlab.wire.amqp.splitting import MAX_BODY, Delivered, Splitter
from mqlab.wire.amqp.values import AmqpError, Table

__all__ = [
    "GREETING",
    "MAX_BODY",
    "AmqpError",
    "Asked",
    "Delivered",
    "Handshake",
    "Method",
    "Publishing",
    "Splitter",
    "Table",
    "asked",
    "method",
]
