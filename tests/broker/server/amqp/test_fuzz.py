"""Frames with anything in them: only the protocol's own error comes of it, and other clients notice nothing."""

import random
from contextlib import suppress

import pytest

from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.wire.amqp10.encoder import encode
from mqlab.wire.amqp10.frames import frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
)
from mqlab.wire.amqp10.types import AmqpValue, Described, Symbol, UInt

from .raw_amqp import RawAmqp, message
from .test_protocol import still_serves

VALUES: tuple[AmqpValue, ...] = (
    None, True, False, UInt(0), UInt(1), UInt(2**32 - 1), -1, 2**62, 1.5, "", "q", "topic://t", b"", b"x",
    Symbol("queue"), [], {}, {Symbol("a"): 1}, Described(0x24, []), Described(0x25, [1]), Described(0x27, [True]),
    Described(0x28, ["q"]), Described(0x29, ["q"]), Described(0x30, []),
    Described(0x34, [b"x"]), Described(0x99, []), Described("x", 1),
)  # fmt: skip


def sensible(chance: random.Random) -> bytes:
    """A frame that a client could send, though not always now."""
    number, handle = chance.randrange(6), chance.randrange(4)
    performative = chance.choice((
        Begin(None, 0, number, 10), Attach(f"l{number}", handle, False, target=composite(Target("q"))),
        Attach(f"l{number}", handle, True, source=composite(Source("q"))), Attach("n", handle, True),
        Attach("c", handle, False, target=Described(0x30, [])), Flow(0, number, 0, 10, handle, 0, number, drain=True),
        Transfer(handle, number, b"t", 0, False, chance.random() < 0.3), Transfer(handle, number, b"t", 0, True),
        Disposition(True, 0, number, True, Described(0x24, [])),
        Disposition(True, 0, number, False, Described(0x25, [])),
        Disposition(True, number, 0, True), Detach(handle, True), Detach(handle, False), End(), Close(), Open("x"),
    ))  # fmt: skip
    payload = chance.choice((b"", message(), message("t"), chance.randbytes(20)))
    return frame(chance.choice((0, 0, 0, 1)), encode_performative(performative) + payload)


def absurd(chance: random.Random) -> bytes:
    """A known performative with unknown fields."""
    code = chance.choice((*range(0x10, 0x19), 0x40, 0x41, 0x53))
    fields = [chance.choice(VALUES) for _ in range(chance.randrange(12))]
    return frame(chance.randrange(3), encode(Described(code, fields)) + chance.randbytes(chance.randrange(5)))


def damaged(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randrange(3)) + data[at + 1 :]


@pytest.mark.parametrize("seed", range(40))
def test_any_frames_end_in_the_protocols_own_error(
    local: LocalBroker, port: int, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(seed)
    with RawAmqp(port) as client:
        client.open(container_id=f"fuzz-{seed}")
        client.begin()
        said = [chance.choice((sensible, sensible, absurd))(chance) for _ in range(30)]
        if seed % 3 == 0:
            said[chance.randrange(30)] = damaged(chance, said[0])
        # The broker may have closed the connection already.
        with suppress(OSError):
            client.socket.sendall(b"".join(said))
            client.socket.sendall(frame(0, encode_performative(Close())))
            # Every frame of the broker can be read, up to its end.
            client.socket.shutdown(1)
            while client.read() is not None:
                continue
    assert not [record for record in caplog.records if record.exc_info]
    assert not local.broker.failure.done()


def test_broker_serves_others_after_all_of_it(port: int, queue: str) -> None:
    assert still_serves(port, queue)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_before_the_login(port: int, seed: int) -> None:
    chance = random.Random(seed)
    with RawAmqp(port) as client, suppress(OSError):
        header = b"AMQP" + chance.choice((b"\x00\x01\x00\x00", b"\x03\x01\x00\x00", chance.randbytes(4)))
        client.socket.sendall(header + chance.randbytes(chance.randrange(1, 6000)))
        client.socket.shutdown(1)
        # The bytes that the broker answers end.
        while client.socket.recv(65536):
            continue
