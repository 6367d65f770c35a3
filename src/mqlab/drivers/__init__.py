"""How a role talks to a system: one interface of batch verbs (`base`), one file a protocol.

A driver moves message bodies; what is in them, when they are sent and what is recorded is `load`'s.
"""

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
from mqlab.drivers.native import NativeDriver

DRIVERS: dict[str, type[Driver]] = {"native": NativeDriver}

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
