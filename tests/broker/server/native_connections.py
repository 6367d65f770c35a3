"""The connections of a broker in the test's process, for tests that look into them."""

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.native.connection import NativeServerConnection


def native_connections(broker: Broker) -> list[NativeServerConnection]:
    """All connections of the broker, each of which speaks the native protocol."""
    native = [connection for connection in broker.connections if isinstance(connection, NativeServerConnection)]
    assert len(native) == len(broker.connections)
    return native
