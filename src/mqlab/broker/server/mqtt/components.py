"""The parts that an MQTT connection, its messages and its subscriptions share."""

from typing import Protocol

from mqlab.broker.server.adapter.state import AdapterState
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.mqtt.core_connection import MqttCoreConnection
from mqlab.broker.server.mqtt.deliveries import Deliveries
from mqlab.broker.server.mqtt.handshake import ConnectRequest
from mqlab.broker.server.mqtt.session import MqttSession
from mqlab.wire.mqtt.packets import Version
from mqlab.wire.mqtt.reasons import Reason


class MqttSocket(Protocol):
    """The connection, as its parts see it."""

    def write(self, data: bytes) -> None: ...

    def write_later(self, data: bytes) -> None:
        """Write an answer that the journal has made due, with all that is not written yet."""

    def refuse_with(self, reason: Reason, message: str) -> None:
        """End the connection with this reason."""

    def send_commands(self) -> None:
        """Hand the collected frames to the native connection now."""


class MqttComponents(AdapterState):
    def __init__(self, broker: Broker, socket: MqttSocket, native: MqttCoreConnection) -> None:
        super().__init__()
        self.socket, self.native = socket, native
        self.core, self.mqtt, self.run_effects = broker.core, broker.mqtt, broker.run_effects
        self.clock_ms = broker.clock_ms
        self.has_store = broker.core.destinations.has_store
        self.request: ConnectRequest | None = None
        # None before the login, and after the end.
        self.session: MqttSession | None = None
        self.deliveries: Deliveries | None = None

    @property
    def version(self) -> Version:
        return 4 if self.request is None else self.request.version
