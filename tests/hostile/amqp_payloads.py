"""Bytes of AMQP 1.0 that no client of ours would send."""

import random

from broker.server.amqp import test_fuzz as amqp_fuzz
from mqlab.broker import limits
from mqlab.wire.amqp10.frames import AMQP_HEADER, FRAME_HEADER, SASL_FRAME, SASL_HEADER, frame
from mqlab.wire.amqp10.performatives import Begin, Open, SaslInit, encode_performative
from mqlab.wire.amqp10.types import Symbol

from .payloads import CHUNK, Login, damaged, filling, length


def amqp_header(login: Login) -> bytes:
    """The first header, and the login if there is one: the broker answers it."""
    if not login:
        return AMQP_HEADER
    response = f"\0{login['user']}\0{login['password']}".encode()
    return SASL_HEADER + frame(0, encode_performative(SaslInit(Symbol("PLAIN"), response)), SASL_FRAME)


def amqp_open(login: Login, container: str = "noise", sessions: int = 1) -> bytes:
    """What follows when the client is let in."""
    begins = [frame(channel, encode_performative(Begin(None, 0, 1000, 1000))) for channel in range(sessions)]
    return (AMQP_HEADER if login else b"") + frame(0, encode_performative(Open(container))) + b"".join(begins)


def begun(size: int, channel: int = 0) -> bytes:
    """The header of a frame of so many bytes."""
    return FRAME_HEADER.pack(min(size, 2**32 - 1), 2, 0, channel)


def amqp_before(chance: random.Random, login: Login) -> bytes:
    size = length(chance)
    header = chance.choice((AMQP_HEADER, SASL_HEADER))
    return chance.choice((
        lambda: b"AMQP" + filling(chance, size),
        lambda: header + filling(chance, size),
        lambda: header + begun(size) + filling(chance, size),
        lambda: header + begun(chance.choice((0, 7, 8, limits.FRAME_BEFORE_HELLO + 1, 2**32 - 1))),
        lambda: damaged(chance, amqp_header(login) + amqp_open(login)),
        lambda: amqp_header(login) + amqp_header(login),
        lambda: header + b"".join(amqp_fuzz.absurd(chance) for _ in range(chance.randrange(40))),
        lambda: amqp_header({"user": "x", "password": "y" * min(size, 4000)}),
    ))()  # fmt: skip


def amqp_after(chance: random.Random, login: Login) -> list[bytes]:
    size, makers = length(chance), (amqp_fuzz.sensible, amqp_fuzz.sensible, amqp_fuzz.absurd)
    data = b"".join(chance.choice(makers)(chance) for _ in range(chance.randrange(60)))
    last = chance.choice((
        lambda: filling(chance, size),
        lambda: begun(size) + filling(chance, size),
        lambda: begun(chance.choice((limits.AMQP_FRAME, limits.AMQP_FRAME + 1, 2**32 - 1))) + filling(chance, CHUNK),
        lambda: frame(0, filling(chance, min(size, limits.AMQP_FRAME - 8))),
        lambda: frame(0, b"") * (size // 8),
        lambda: b"",
    ))()  # fmt: skip
    return [amqp_open(login), damaged(chance, data) if data and chance.random() < 0.4 else data, last]
