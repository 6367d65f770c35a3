"""The client's side of the connection handshake."""

from typing import Final

from mqlab.wire.amqp.methods import Method, method
from mqlab.wire.amqp.values import AmqpError, Table

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_CAPABILITIES: Final[Table] = {
    "publisher_confirms": True, "basic.nack": True, "connection.blocked": True, "consumer_cancel_notify": True,
    "authentication_failure_close": True,
}  # fmt: skip


class AmqpHandshake:
    """After PROTOCOL_HEADER: the reply to each method of the broker, until `done`."""

    def __init__(self, user: str, password: str, virtual_host: str = "/", application: str = "") -> None:
        self.done = False
        # Negotiated once the handshake is done.
        self.frame_max = 0
        self.channel_max = 0
        self._login = f"\0{user}\0{password}".encode()
        self._virtual_host = virtual_host
        self._application = application

    def answer(self, received: Method) -> bytes:
        """Raises AmqpError if the broker refuses."""
        if received.name == "connection.start":
            properties: Table = {
                "product": "mqlab", "connection_name": self._application or "mqlab", "capabilities": _CAPABILITIES,
            }  # fmt: skip
            if b"PLAIN" not in received.arguments[3].split():
                raise AmqpError("the broker does not accept the mechanism PLAIN")
            return method(0, "connection.start-ok", properties, "PLAIN", self._login, "en_US")
        if received.name == "connection.tune":
            channels, self.frame_max, _ = received.arguments
            self.channel_max = channels or 0xFFFF
            # No heartbeats: a load generator may be too busy to send them.
            tuned = method(0, "connection.tune-ok", self.channel_max, self.frame_max, 0)
            return tuned + method(0, "connection.open", self._virtual_host, "", False)
        if received.name == "connection.open-ok":
            self.done = True
            return b""
        if received.name == "connection.close":
            raise AmqpError(f"the broker refuses: {received.arguments[1]}")
        raise AmqpError(f"{received.name} before the connection is open")
