"""Bytes of MQTT 3.1.1 and 5 that no client of ours would send."""

import random

from broker.server.mqtt.mqtt_client import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Properties,
    Will,
    acknowledge,
    connect,
    publish,
)
from mqlab.broker import limits
from mqlab.wire.mqtt.packets import packet, text, varint
from mqlab.wire.mqtt.properties import Property

from .payloads import CHUNK, MOST, Login, damaged, filling, length

# Of packets that are long enough for the broker to refuse them, and the longest that MQTT has.
LONG_PACKETS = (MOST - limits.MQTT_HEAD_ROOM, MOST - limits.MQTT_HEAD_ROOM + 1, MOST, 268_435_455)
TOPICS = ("a", "a/b", "$queue/a", "$SYS/x", "a/#", "+", "", "$share/g/a", "\ud7ff", "x" * 300)


def begun(first: int, size: int) -> bytes:
    """The fixed header of a packet of so many bytes."""
    return bytes((first,)) + varint(size)


def mqtt_connect(chance: random.Random, login: Login) -> bytes:
    """Of any version, with a session that is kept or not, with a will or without."""
    version, clean = chance.choice((4, 5)), chance.random() < 0.7
    will = Will("$queue/a", chance.randbytes(20), chance.randrange(3)) if chance.random() < 0.2 else None
    properties: Properties = {} if clean else {Property.SESSION_EXPIRY: chance.choice((1, 5, 2**32 - 1))}
    client_id = f"noise-{chance.randrange(5)}"
    return connect(client_id, version, clean=clean, will=will, properties=properties, **login)


def mqtt_before(chance: random.Random, login: Login) -> bytes:
    size = length(chance)
    return chance.choice((
        lambda: b"\x10" + filling(chance, size),
        lambda: begun(0x10, size) + filling(chance, size),
        lambda: packet(0x10, text("MQTT") + bytes((chance.randrange(8), chance.randrange(256))) + filling(chance, 90)),
        lambda: b"\x10" + b"\xff" * chance.randrange(1, 9),
        lambda: damaged(chance, mqtt_connect(chance, login)),
        lambda: mqtt_connect(chance, login) * 2,
        lambda: connect("x", will=Will("t", bytes(limits.MQTT_CONNECT - 40 + chance.randrange(40)))),
        lambda: connect("x", user="x", password="y" * min(size, 4000)),
    ))()  # fmt: skip


def said(chance: random.Random) -> bytes:
    """A packet that a client could send, though not always now."""
    topic, number = chance.choice(TOPICS), chance.randrange(1, 9)
    body, qos, retain = chance.randbytes(chance.randrange(40)), chance.randrange(3), chance.random() < 0.2
    properties: Properties = chance.choice((
        {}, {}, {Property.USER_PROPERTY: [("k", "v")]}, {Property.TOPIC_ALIAS: number}, {Property.MESSAGE_EXPIRY: 1},
    ))  # fmt: skip
    filters = b"".join(text(name) + chance.choice((b"", bytes((chance.randrange(64),)))) for name in TOPICS[:number])
    head = number.to_bytes(2, "big") + b"\0"
    return chance.choice((
        lambda: publish(topic, body, qos, number, retain=retain, properties=properties) * chance.choice((1, 20)),
        lambda: publish(topic, body, qos, number, dup=True, version=4),
        lambda: packet(0x82, head + text(topic) + bytes((chance.choice((0, 1, 2, 4, 8, 0x10, 0x20)),))),
        lambda: packet(chance.choice((0x82, 0xA2)), head + filters),
        lambda: packet(0xA2, head + text(topic)),
        lambda: acknowledge(chance.choice((PUBACK, PUBREC, PUBREL, PUBCOMP)), chance.randrange(65536)),
        lambda: b"\xc0\0",
        lambda: packet(chance.randrange(256), chance.randbytes(chance.randrange(9))),
    ))()  # fmt: skip


def mqtt_after(chance: random.Random, login: Login) -> list[bytes]:  # noqa: ARG001 - like the others
    size = length(chance)
    data = b"".join(said(chance) for _ in range(chance.randrange(40)))
    last = chance.choice((
        lambda: filling(chance, size),
        lambda: begun(0x30, size) + filling(chance, size),
        lambda: begun(0x32, chance.choice(LONG_PACKETS)) + text("a") + filling(chance, CHUNK),
        lambda: publish("a", filling(chance, size), 1, 1),
        lambda: packet(0x82, b"\0\1\0" + (text("a") + b"\1") * min(size, 4000)),
        lambda: b"",
    ))()  # fmt: skip
    return [damaged(chance, data) if chance.random() < 0.4 else data, last]
