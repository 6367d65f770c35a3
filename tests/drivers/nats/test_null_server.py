"""The null server of NATS: it hears a subscription however the bytes around it come."""

import asyncio

import pytest

from mqlab.drivers.nats.null_server import NatsNullServer

# As a client says it that has made its inbox before: both may come in one read, or anywhere apart.
_SAID = b"CONNECT {}\r\nPING\r\nSUB _INBOX.ab.* 1000\r\nSUB queue.q all 1001\r\nPING\r\n"


class _Taken(asyncio.Transport):
    """Enough at once to keep the peer waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return b"MSG " in self.data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


def _told(*parts: bytes) -> bytes:
    peer, transport = NatsNullServer(12, 3), _Taken()
    peer.connection_made(transport)
    for part in parts:
        peer.get_buffer(-1)[: len(part)] = part
        peer.buffer_updated(len(part))
    return transport.data


@pytest.mark.parametrize("at", range(len(_SAID)))
def test_it_delivers_to_the_subscription(at: int) -> None:
    said = _told(_SAID[:at], _SAID[at:])
    assert said.count(b"MSG queue.q 1001 12\r\n") == 3
    assert said.count(b"PONG\r\n") == 2
    assert b"_INBOX" not in said
