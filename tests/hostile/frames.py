"""Frames of the native protocol that make sense, and such that make none."""

import random

from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import encode_single
from mqlab.wire.native.frames import Flag, Kind

# Numbers as no client of ours would send them.
NUMBERS = (0, 1, 2, 3, 7, 2**31, 2**63 - 1, 2**63, 2**64 - 1)
AMOUNTS = (0, 1, 2, 100, 1_000_000, 2**32 - 1)
LINKS = (0, 1, 2, 3, 4, 5, 99, 2**32 - 1)
SESSIONS = (0, 1, 2, 9, 2**16 - 1)
KINDS = [kind for kind in Kind if kind != Kind.HELLO]
MESSAGES = [
    encode([b"one"]), encode([b"a", b"b", b"c"]), encode_single(b"x", ("correlation_id",), "s", ["id-1"]),
    encode_single(b"y", ("correlation_id", "reply_to", ".a"), "ssq", ["id-2", "queue:a", 2**62]),
    encode_single(b"z", (".long",), "s", ["x" * 5000]),
]  # fmt: skip
ASKED: list[dict[str, object]] = [
    {"ask": "ping"}, {"ask": "purge", "name": "queue:a"}, {"ask": "move", "name": "queue:a", "to": "queue:b"},
    {"ask": "prepare", "xid": "x"}, {"ask": "commit", "xid": "x"}, {"ask": "nonsense", "\ud800": 1e400},
    {"ask": "delete", "name": "queue:b"}, {"ask": "unsubscribe", "name": "\udfff"}, {"ask": 10**300},
]  # fmt: skip
OPENED: list[dict[str, object]] = [
    {"destination": "queue:a"}, {"destination": "queue:b", "selector": "a = 1"}, {"destination": "topic:t"},
    {"destination": "queue:a", "browse": True}, {"destination": "topic:t", "durable": "d"}, {"destination": 7},
    {"destination": "queue:\ud800"}, {"transacted": True}, {}, {"destination": "queue:mqlab.trace"},
]  # fmt: skip


def sensible(chance: random.Random) -> bytes:
    """A frame that makes sense, mostly: links 1 and 2 are producers, 3 and 4 consumers, session 2 is transacted."""
    kind = chance.choice(
        (Kind.SEND, Kind.SEND, Kind.SEND, Kind.ACKNOWLEDGE, Kind.ACKNOWLEDGE, Kind.ACKNOWLEDGE_ROWS, Kind.RECEIVE,
         Kind.REQUEST, Kind.CANCEL, Kind.COMMIT, Kind.ROLLBACK, Kind.ASK)
    )  # fmt: skip
    number, first = chance.randrange(1, 30), chance.choice((chance.randrange(30), chance.choice(NUMBERS)))
    producer, consumer = chance.choice((1, 2)), chance.choice((3, 4))
    if kind in (Kind.SEND, Kind.REQUEST):
        payload = chance.choice(MESSAGES[2:4] if kind == Kind.REQUEST else MESSAGES)
        flags = payload.form | chance.choice((0, Flag.CONFIRM, Flag.PERSISTENT, Flag.CONFIRM | Flag.PERSISTENT))
        amount = consumer if kind == Kind.REQUEST else payload.rows
        size = len(payload.data)
        head = native.header(kind, flags=flags, link=producer, first=number, amount=amount, length=size)
        return head + bytes(payload.data)
    if kind == Kind.RECEIVE:
        return native.header(kind, link=consumer, first=first, length=4) + b"id-1"
    if kind == Kind.ASK:
        return native.frame(kind, chance.choice(ASKED), session=chance.choice((1, 2)), first=number)
    if kind in (Kind.COMMIT, Kind.ROLLBACK):
        return native.header(kind, session=2)
    amount = chance.choice((0, 1, 10))
    return native.header(kind, link=consumer, first=first, amount=amount)


def absurd(chance: random.Random) -> bytes:
    kind = chance.choice(KINDS)
    numbers = {
        "session": chance.choice(SESSIONS), "link": chance.choice(LINKS), "first": chance.choice(NUMBERS),
        "amount": chance.choice(AMOUNTS),
    }  # fmt: skip
    if kind in (Kind.OPEN_SESSION, Kind.OPEN_PRODUCER, Kind.OPEN_CONSUMER, Kind.ASK) and chance.random() < 0.9:
        return native.frame(kind, chance.choice(ASKED if kind == Kind.ASK else OPENED), **numbers)
    data = chance.choice((b"", b"{}", b"id-1", bytes(16), chance.randbytes(40), bytes(MESSAGES[3].data)))
    flags = chance.choice((0, 1, 16, 17, 255))
    return native.header(kind, flags=flags, length=len(data), **numbers) + data


OPENING = (
    native.frame(Kind.OPEN_SESSION, {"transacted": False}, session=1)
    + native.frame(Kind.OPEN_SESSION, {"transacted": True}, session=2)
    + native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:a"}, session=1, link=1)
    + native.frame(Kind.OPEN_PRODUCER, {"destination": "topic:t"}, session=2, link=2)
    + native.frame(Kind.OPEN_CONSUMER, {"destination": "queue:a"}, session=1, link=3, amount=5)
    + native.frame(Kind.OPEN_CONSUMER, {"destination": "topic:t"}, session=2, link=4, amount=5)
)
