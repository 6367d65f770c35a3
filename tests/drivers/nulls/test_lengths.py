"""A null peer ends a connection whose frame has an impossible length; it does not read the same bytes again."""

import asyncio

import pytest

from mqlab.drivers.nulls.base import NullPeer
from mqlab.drivers.nulls.kafka import KafkaNull


class Ended(asyncio.Transport):
    aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None:
        self.aborted = True


def refused(peer: NullPeer, data: bytes) -> bool:
    transport = Ended()
    peer.connection_made(transport)
    peer.received(memoryview(data))
    return transport.aborted


@pytest.mark.parametrize("length", [-1, -4, -(2**31)])
def test_kafka(length: int) -> None:
    assert refused(KafkaNull(12, 1), length.to_bytes(4, "big", signed=True) + bytes(8))


@pytest.mark.parametrize("length", range(8))
def test_amqp10(length: int) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    from mqlab.drivers.nulls.amqp10 import Amqp10Null

    assert refused(Amqp10Null(12, 1), length.to_bytes(4, "big") + b"\x02\0\0\0" + bytes(8))
