"""Encodes and decodes the packets of MQTT 3.1.1 and 5 that are not messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mqlab.errors import MqlabError

Version = Literal[4, 5]

CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
# Packets of a broker for a client with QoS 1 at most.
FROM_BROKER: Final = (CONNACK, PUBLISH, PUBACK, SUBACK, UNSUBACK, PINGRESP, DISCONNECT)
# Packets of such a client.
FROM_CLIENT: Final = (CONNECT, PUBLISH, PUBACK, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, DISCONNECT)

PING: Final = b"\xc0\x00"
# Reason codes from here on are errors.
REFUSED: Final = 0x80
NO_MATCHING_SUBSCRIBERS: Final = 0x10

MESSAGE_EXPIRY: Final = 0x02
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
_SESSION_EXPIRY: Final = 0x11
RECEIVE_MAXIMUM: Final = 0x21
REASON: Final = 0x1F
USER_PROPERTY: Final = 0x26
_FOREVER: Final = 0xFFFFFFFF

# Types of the properties of MQTT 5: the bytes of a number, string or binary (t), string pair (p), varint (v).
PROPERTY_KINDS: Final[Mapping[int, int | str]] = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1), **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
    **dict.fromkeys((0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F), "t"), 0x0B: "v", 0x26: "p",
}  # fmt: skip

# Return codes of CONNACK in MQTT 3.1.1.
_REFUSALS: Final = {
    1: "unacceptable protocol version", 2: "client id rejected", 3: "server unavailable",
    4: "bad user name or password", 5: "not authorised",
}  # fmt: skip


class MqttError(MqlabError, ValueError):
    """The peer breaks the protocol or a limit."""


@dataclass(frozen=True)
class Connect:
    """`keep_session`: the session outlives its connection; `clean_start`: the broker discards an earlier session."""

    client_id: str
    version: Version = 5
    user: str = ""
    password: str = ""
    keep_session: bool = False
    clean_start: bool = True
    receive_maximum: int = 0xFFFF

    def packet(self) -> bytes:
        # MQTT 3.1.1 has one bit for both: a clean session is discarded before and after the connection.
        clean = self.clean_start if self.version == 5 else self.clean_start and not self.keep_session
        flags = clean << 1 | bool(self.user) << 7 | bool(self.password) << 6
        head = text("MQTT") + bytes((self.version, flags, 0, 0))
        if self.version == 5:
            expiry = (_SESSION_EXPIRY, (_FOREVER if self.keep_session else 0).to_bytes(4, "big"))
            head += properties(expiry, (RECEIVE_MAXIMUM, self.receive_maximum.to_bytes(2, "big")))
        login = b"".join(text(word) for word in (self.user, self.password) if word)
        return packet(0x10, head + text(self.client_id) + login)


def subscribe(version: Version, number: int, topic: str, qos: int) -> bytes:
    none = properties() if version == 5 else b""
    return packet(0x82, number.to_bytes(2, "big") + none + text(topic) + bytes((qos,)))


def unsubscribe(version: Version, number: int, topic: str) -> bytes:
    none = properties() if version == 5 else b""
    return packet(0xA2, number.to_bytes(2, "big") + none + text(topic))


def disconnect() -> bytes:
    return packet(0xE0, b"")


def packet(first: int, rest: bytes) -> bytes:
    return bytes((first,)) + varint(len(rest)) + rest


def text(word: str) -> bytes:
    raw = word.encode()
    if len(raw) > 0xFFFF:
        raise MqttError(f"a text of {len(raw):,} bytes, where 65,535 are the most")
    return data(raw)


def data(raw: bytes) -> bytes:
    return len(raw).to_bytes(2, "big") + raw


def properties(*fields: tuple[int, bytes]) -> bytes:
    """Encode properties, each given as its number and encoded value."""
    rest = b"".join(bytes((number,)) + value for number, value in fields)
    return varint(len(rest)) + rest


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    if len(out) > 4:
        raise MqttError("a packet that is longer than MQTT allows")
    return bytes(out)


def read_varint(buffer: bytes, at: int) -> tuple[int, int]:
    """The number (-1: incomplete) and the offset after it. Raises MqttError."""
    number = 0
    for shift, position in enumerate(range(at, at + 4)):
        if position >= len(buffer):
            return -1, at
        byte = buffer[position]
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, position + 1
    raise MqttError("a length of more than four bytes")


def read_properties(raw: bytes) -> dict[int, bytes]:
    """Encoded values by number; of repeated properties the last. Raises MqttError."""
    values: dict[int, bytes] = {}
    at = 0
    while at < len(raw):
        number, at = raw[at], at + 1
        kind = PROPERTY_KINDS.get(number)
        if kind is None:
            raise MqttError(f"an unknown property: {number}")
        begin, at = _value_at(raw, at, kind)
        values[number] = raw[begin:at]
        if at > len(raw):
            raise MqttError("a property is incomplete")
    return values


def _value_at(raw: bytes, at: int, kind: int | str) -> tuple[int, int]:
    """The offsets of begin and end of the value."""
    if isinstance(kind, int):
        return at, at + kind
    if kind == "v":
        number, end = read_varint(raw, at)
        return at, end if number >= 0 else len(raw) + 1
    size = int.from_bytes(raw[at : at + 2], "big")
    if kind == "t":
        return at + 2, at + 2 + size
    second = at + 2 + size
    return at, second + 2 + int.from_bytes(raw[second : second + 2], "big")


def refusal(version: Version, code: int, values: Mapping[int, bytes]) -> str:
    """The reason of a refusal, as text."""
    reason = values.get(REASON, b"").decode(errors="replace")
    if reason:
        return reason
    return _REFUSALS.get(code, f"reason {code}") if version == 4 or code < REFUSED else f"reason {code:#04x}"
