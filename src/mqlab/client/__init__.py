"""The client library of the embedded broker: connect, session, producer, consumer, transactions.

`connect` is the plain blocking API; `mqlab.client.aio` is the same for asyncio, and both have the batch API.
What goes over the wire is `wire`'s; what a broker does with it is not known here.
"""

from mqlab.client.errors import ClosedError, MessagingError, RefusedError
from mqlab.client.message import Message
from mqlab.client.plain import Connection, Consumer, Producer, Session, connect

__all__ = [
    "ClosedError",
    "Connection",
    "Consumer",
    "Message",
    "MessagingError",
    "Producer",
    "RefusedError",
    "Session",
    "connect",
]
