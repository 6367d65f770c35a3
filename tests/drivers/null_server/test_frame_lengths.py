"""A null server ends a connection whose frame has an impossible length; it does not read the same bytes again."""

import asyncio

import pytest

from mqlab.drivers.kafka.null_server import KafkaNullServer
from mqlab.drivers.null_server.api import NullServer


class Ended(asyncio.Transport):
    aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def refused(peer: NullServer, data: bytes) -> bool:
    transport = Ended()
    peer.connection_made(transport)
    peer.handle_data(memoryview(data))
    return transport.aborted


@pytest.mark.parametrize("length", [-1, -4, -(2**31)])
def test_kafka(length: int) -> None:
    assert refused(KafkaNullServer(12, 1), length.to_bytes(4, "big", signed=True) + bytes(8))


@pytest.mark.parametrize("length", range(8))
def test_amqp10(length: int) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    from mqlab.drivers.amqp10.null_server import Amqp10NullServer

    assert refused(Amqp10NullServer(12, 1), length.to_bytes(4, "big") + b"\x02\0\0\0" + bytes(8))
