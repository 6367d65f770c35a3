"""The methods of AMQP 0-9-1 that a client needs, as one table of their fields."""

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from mqlab.wire.amqp.values import AmqpError, ValueReader, long, short, table

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
END: Final = 0xCE
# type, channel, size of the payload; then the payload, then END.
FRAME: Final = struct.Struct(">BHI")
FRAME_EXTRA: Final = FRAME.size + 1

_IDS: Final = struct.Struct(">HH")

# Fields by their letters: b one bit (those that follow each other share a byte), B H I Q numbers of 1, 2, 4 and 8
# bytes, s short string, S long string, T table.
_FIELDS: Final = {
    "connection.start": (10, 10, "BBTSS"), "connection.start-ok": (10, 11, "TsSs"),
    "connection.secure": (10, 20, "S"), "connection.tune": (10, 30, "HIH"), "connection.tune-ok": (10, 31, "HIH"),
    "connection.open": (10, 40, "ssb"), "connection.open-ok": (10, 41, "s"),
    "connection.close": (10, 50, "HsHH"), "connection.close-ok": (10, 51, ""),
    "connection.blocked": (10, 60, "s"), "connection.unblocked": (10, 61, ""),
    "channel.open": (20, 10, "s"), "channel.open-ok": (20, 11, "S"), "channel.flow": (20, 20, "b"),
    "channel.flow-ok": (20, 21, "b"), "channel.close": (20, 40, "HsHH"), "channel.close-ok": (20, 41, ""),
    "exchange.declare": (40, 10, "HssbbbbbT"), "exchange.declare-ok": (40, 11, ""),
    "exchange.delete": (40, 20, "Hsbb"), "exchange.delete-ok": (40, 21, ""),
    "queue.declare": (50, 10, "HsbbbbbT"), "queue.declare-ok": (50, 11, "sII"),
    "queue.bind": (50, 20, "HsssbT"), "queue.bind-ok": (50, 21, ""),
    "queue.purge": (50, 30, "Hsb"), "queue.purge-ok": (50, 31, "I"),
    "queue.delete": (50, 40, "Hsbbb"), "queue.delete-ok": (50, 41, "I"),
    "queue.unbind": (50, 50, "HsssT"), "queue.unbind-ok": (50, 51, ""),
    "basic.qos": (60, 10, "IHb"), "basic.qos-ok": (60, 11, ""),
    "basic.consume": (60, 20, "HssbbbbT"), "basic.consume-ok": (60, 21, "s"),
    "basic.cancel": (60, 30, "sb"), "basic.cancel-ok": (60, 31, "s"),
    "basic.publish": (60, 40, "Hssbb"), "basic.return": (60, 50, "Hsss"), "basic.deliver": (60, 60, "sQbss"),
    "basic.ack": (60, 80, "Qb"), "basic.nack": (60, 120, "Qbb"),
    "basic.recover": (60, 110, "b"), "basic.recover-ok": (60, 111, ""),
    "tx.select": (90, 10, ""), "tx.select-ok": (90, 11, ""), "tx.commit": (90, 20, ""), "tx.commit-ok": (90, 21, ""),
    "tx.rollback": (90, 30, ""), "tx.rollback-ok": (90, 31, ""),
    "confirm.select": (85, 10, "b"), "confirm.select-ok": (85, 11, ""),
}  # fmt: skip
_NAMES: Final = {_IDS.pack(group, number): name for name, (group, number, _) in _FIELDS.items()}
# Any: the letters of its method say which type an argument has, as those of the struct library do.
Argument = Any
_SIZES: Final = {"B": 1, "H": 2, "I": 4, "Q": 8}
_WRITERS: Final[dict[str, Callable[[Argument], bytes]]] = {"s": short, "S": long, "T": table}


class Method(NamedTuple):
    """`arguments` in the order of its fields, bits as bool."""

    channel: int
    name: str
    arguments: tuple[Argument, ...]


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, name: str, *arguments: Argument) -> bytes:
    """Encode a method as a frame. Raises AmqpError for a name that is too long."""
    return frame(METHOD, channel, method_payload(name, *arguments))


def method_payload(name: str, *arguments: Argument) -> bytes:
    group, number, fields = _FIELDS[name]
    parts = [_IDS.pack(group, number)]
    bits: list[bool] = []
    for letter, value in zip(fields, arguments, strict=True):
        if letter == "b":
            bits.append(value)
            continue
        parts.append(_bits(bits))
        bits = []
        size = _SIZES.get(letter)
        parts.append(_WRITERS[letter](value) if size is None else value.to_bytes(size, "big"))
    return b"".join((*parts, _bits(bits)))


def read_method(channel: int, payload: bytes) -> Method:
    """Decode a method. Raises AmqpError for a malformed or unknown one."""
    name = _NAMES.get(payload[:4])
    if name is None:
        raise AmqpError(f"an unknown method: {payload[:4].hex()}")
    reader = ValueReader(payload, 4)
    readers: dict[str, Callable[[], Argument]] = {"s": reader.short, "S": reader.long, "T": reader.table}
    values: list[Argument] = []
    mask, byte = 0, 0
    for letter in _FIELDS[name][2]:
        if letter == "b":
            byte = byte if mask else reader.number(1)
            mask = mask << 1 or 1
            values.append(bool(byte & mask))
            continue
        mask = 0
        size = _SIZES.get(letter)
        values.append(readers[letter]() if size is None else reader.number(size))
    return Method(channel, name, tuple(values))


def _bits(bits: list[bool]) -> bytes:
    return bytes((sum(bit << at for at, bit in enumerate(bits)),)) if bits else b""
