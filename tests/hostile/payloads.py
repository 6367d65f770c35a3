"""Bytes that no client of ours would send: noise, and what is nearly right, of lengths around every limit."""

import random
from typing import TypedDict

from broker.server.stomp.stomp_clients import frame as stomp_frame
from broker.server.stomp.test_fuzz import Sayings
from broker.server.websocket.websocket_client import request
from mqlab.broker import limits
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

from .frames import OPENING, absurd, sensible

CHUNK = 64 * 1024
LENGTHS = [
    max(0, length + more)
    for length in (
        0, native.HEADER_SIZE, limits.FRAME_BEFORE_HELLO, limits.STOMP_HEADER, limits.HTTP_HEAD, limits.STOMP_HEAD,
        limits.WEBSOCKET_BEFORE_HELLO, CHUNK, 2 * CHUNK, 4 * CHUNK,
    )
    for more in (-1, 0, 1)
]  # fmt: skip
# The broker of these tests has such a `max_message_size`.
MOST = 16 * 1024 * 1024
LONG = [length + more for length in (MOST - limits.STOMP_HEAD_ROOM, MOST) for more in (-1, 0, 1)]


class Login(TypedDict, total=False):
    user: str
    password: str


def filling(chance: random.Random, length: int) -> bytes:
    kind = chance.randrange(5)
    if kind == 0:
        return bytes(length)
    if kind == 1:
        return chance.choice((b"\n", b"\r", b"A", b"\xff", b":", b"{", b"[")) * length
    return chance.randbytes(length)


def length(chance: random.Random) -> int:
    """Long ones are dear, and rare."""
    return chance.choice(LONG) if chance.random() < 0.01 else chance.choice(LENGTHS)


def damaged(chance: random.Random, data: bytes) -> bytes:
    """A byte changed, left out or put in; an end cut off; a part twice."""
    if not data:
        return data
    at = chance.randrange(len(data))
    other = chance.randrange(at, len(data) + 1)
    return chance.choice((
        lambda: data[:at] + chance.randbytes(1) + data[at + 1 :], lambda: data[:at] + data[at + 1 :],
        lambda: data[:at] + chance.randbytes(3) + data[at:], lambda: data[:at], lambda: data[:other] + data[at:],
    ))()  # fmt: skip


# Native


def native_hello(login: Login) -> bytes:
    return native.frame(Kind.HELLO, {"version": native.VERSION, **login})


def native_before(chance: random.Random, login: Login) -> bytes:
    size = length(chance)
    return chance.choice((
        lambda: filling(chance, size),
        lambda: native.header(Kind.HELLO, length=size) + filling(chance, size),
        lambda: native.header(chance.randrange(256), length=chance.choice((0, 2**32 - 1))) + filling(chance, size),
        lambda: damaged(chance, native_hello(login)),
        lambda: native_hello(login) * 2,
        lambda: b"".join(absurd(chance) for _ in range(chance.randrange(40))),
        lambda: native.frame(Kind.HELLO, {"version": native.VERSION, "user": "x", "password": "y" * min(size, 4000)}),
    ))()  # fmt: skip


def native_after(chance: random.Random, login: Login) -> list[bytes]:  # noqa: ARG001 - like the others
    size = length(chance)
    frames = [sensible(chance) if chance.random() < 0.7 else absurd(chance) for _ in range(chance.randrange(60))]
    last = chance.choice((
        lambda: filling(chance, size),
        lambda: native.header(Kind.SEND, flags=chance.randrange(256), link=1, first=1, amount=2**32 - 1, length=size)
        + filling(chance, size),
        lambda: native.header(Kind.ASK, first=1, length=size) + filling(chance, size),
        lambda: native.header(Kind.SEND, link=1, length=MOST + chance.randrange(2)),
        lambda: b"",
    ))()  # fmt: skip
    data = OPENING + b"".join(frames)
    return [damaged(chance, data) if chance.random() < 0.4 else data, last]


# STOMP


def stomp_connect(login: Login) -> bytes:
    headers = {"accept-version": "1.0,1.1,1.2", "host": "x"}
    if login:
        headers |= {"login": login["user"], "passcode": login["password"]}
    return stomp_frame("CONNECT", **headers)


def stomp_before(chance: random.Random, login: Login) -> bytes:
    size = length(chance)
    word = chance.choice((b"CONNECT\n", b"STOMP\n", b"SEND\n", b"SUBSCRIBE\n", b"CONNECTED\n", b"\n\n\n\nSEND", b"CON"))
    return chance.choice((
        lambda: word + filling(chance, size),
        lambda: word + b"a:" + b"b" * size + b"\n\n\0",
        lambda: word + b"a:b\n" * (size // 4) + b"\n\0",
        lambda: word + b"content-length:%d\n\n" % chance.choice((size, 10**11, 10**13)) + filling(chance, size),
        lambda: b"\n" * size + word,
        lambda: damaged(chance, stomp_connect(login)),
        lambda: stomp_connect(login) * 2,
    ))()  # fmt: skip


def stomp_after(chance: random.Random, login: Login) -> list[bytes]:  # noqa: ARG001 - like the others
    sayings, size = Sayings(chance, "s"), length(chance)
    data = b"".join(sayings.next() for _ in range(chance.randrange(40)))
    last = chance.choice((
        lambda: filling(chance, size),
        lambda: b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % size + filling(chance, size) + b"\0",
        lambda: b"SEND\ndestination:/queue/a\nx:" + b"y" * size + b"\n\n\0",
        lambda: b"SEND\ndestination:/queue/a\n" + b"h:1\n" * (limits.STOMP_HEADERS - 1 + chance.randrange(2)) + b"\n\0",
        lambda: b"SUBSCRIBE\nid:1\ndestination:/queue/a\nselector:" + b"(" * min(size, 8000) + b"\n\n\0",
        lambda: b"\n" * size,
        lambda: b"",
    ))()  # fmt: skip
    return [damaged(chance, data) if chance.random() < 0.4 else data, last]


# WebSocket


def websocket_request(login: Login) -> bytes:  # noqa: ARG001 - like the others
    return request()


def websocket_before(chance: random.Random, login: Login) -> bytes:  # noqa: ARG001 - like the others
    size = length(chance)
    return chance.choice((
        lambda: b"GET" + filling(chance, size),
        lambda: b"GET / HTTP/1.1\r\nA: " + filling(chance, size) + b"\r\n\r\n",
        lambda: damaged(chance, request()),
        lambda: request("/" + "a" * size),
        lambda: request() + filling(chance, size),
        lambda: request(Content_Length=str(size)) + filling(chance, size),
        lambda: request() + b"\x81\xff" + size.to_bytes(8, "big") + filling(chance, 4 + size),
    ))()  # fmt: skip


def websocket_frame(opcode: int, data: bytes, *, last: bool = True) -> bytes:
    """As a client writes it, with a mask that changes nothing."""
    size = len(data)
    long = b"" if size < 126 else size.to_bytes(2 if size < 65536 else 8, "big")
    begin = bytes((opcode | 0x80 * last, 0x80 | (size if size < 126 else 126 if size < 65536 else 127)))
    return begin + long + bytes(4) + data


def websocket_after(chance: random.Random, login: Login) -> list[bytes]:
    frames = [websocket_frame(1, stomp_connect(login))]
    for piece in stomp_after(chance, login):
        opcode = 2
        for at in range(0, len(piece), 30_000):
            last = at + 30_000 >= len(piece) or chance.random() < 0.5
            frames.append(websocket_frame(opcode, piece[at : at + 30_000], last=last))
            opcode = 2 if last else 0
        if chance.random() < 0.3:
            frames.append(websocket_frame(9, chance.randbytes(chance.randrange(126))))
    frames.append(chance.choice((b"", websocket_frame(8, b"\x03\xe8"), websocket_frame(chance.randrange(16), b"x"))))
    data = b"".join(frames)
    return [damaged(chance, data) if chance.random() < 0.3 else data]


# The page of counters


def http(chance: random.Random, login: Login) -> list[bytes]:  # noqa: ARG001 - like the others
    size = length(chance) % (4 * CHUNK + 2)
    path = chance.choice((b"/metrics", b"/status.json", b"/destinations.json", b"/" + b"x" * size, b"*", b"//"))
    head = b"%b %b HTTP/1.1\r\nHost: 127.0.0.1\r\n" % (chance.choice((b"GET", b"POST", b"GET", b"")), path)
    return [chance.choice((
        lambda: filling(chance, size),
        lambda: head + filling(chance, size) + b"\r\n\r\n",
        lambda: head + b"Accept: " + filling(chance, size).hex().encode() + b"\r\n\r\n",
        lambda: head + b"Content-Length: %d\r\n\r\n" % size + filling(chance, size // 2),
        lambda: head + b"Transfer-Encoding: chunked\r\n\r\n" + filling(chance, size),
        lambda: damaged(chance, head + b"\r\n"),
        lambda: (head + b"\r\n") * 20,
    ))()]  # fmt: skip
