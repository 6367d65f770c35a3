"""The client library of the embedded broker: connect, session, producer, consumer, transactions.

`connect` opens a connection of the blocking API; `mqlab.client.aio` is the asyncio API. Both can send and receive
batches. `mqlab.wire` encodes and decodes the frames.
"""

from mqlab.client.blocking import Connection, Requester, Session, connect
from mqlab.client.blocking_links import Consumer, Producer
from mqlab.client.errors import ClosedError, LoginError, MessagingError, RefusedError
from mqlab.client.headers import Byte, Float, Int, Short
from mqlab.client.message import Delivery, Message

__all__ = [
    "Byte", "ClosedError", "Connection", "Consumer", "Delivery", "Float", "Int", "LoginError", "Message",
    "MessagingError", "Producer", "RefusedError", "Requester", "Session", "Short", "connect",
]  # fmt: skip
