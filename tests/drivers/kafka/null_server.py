"""The null server of Kafka: one broker, whose topics are endless and have as many partitions as a client creates.

It supports one version of each request, the oldest that the client library accepts.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import google_crc32c

from drivers.null_servers import NullServer

# Any: struct gives the type that a letter names, and the caller knows the letter.
_Value = Any
_SIZE: Final = struct.Struct(">i")
_API_VERSIONS: Final = 18
_UNSUPPORTED: Final = 35
_ENDLESS: Final = 2**62
# Size of one record batch.
_BATCH_BYTES: Final = 64 * 1024
# Length of the rest, epoch, magic, checksum of the rest. The base offset stands before it.
_BATCH_BEGIN: Final = struct.Struct(">iibI")
# Attributes, last offset delta, first and last timestamp, producer id, epoch and sequence, number of records.
_BATCH_HEAD: Final = struct.Struct(">hiqqqhii")
_MAGIC: Final = 2


class KafkaNullServer(NullServer):
    # Shared by all connections.
    _partitions: ClassVar[dict[str, int]] = {}

    def __init__(self, size: int, batch: int) -> None:  # noqa: ARG002 - a broker has its own batch size
        super().__init__(size, max(1, _BATCH_BYTES // size))
        self._unparsed = bytearray()
        # The batch of every answer to a fetch.
        self._record_batch = b""

    def handle_data(self, data: memoryview) -> None:
        unparsed, at = self._unparsed, 0
        unparsed += data
        while len(unparsed) - at >= _SIZE.size:
            size = _SIZE.unpack_from(unparsed, at)[0]
            if size < 0:
                self.abort()
                return
            end = at + _SIZE.size + size
            if end > len(unparsed):
                break
            self._answer(_Reader(unparsed, at + _SIZE.size))
            at = end
        del unparsed[:at]

    def _answer(self, request: "_Reader") -> None:
        key, version, correlation_id, _client_id = request.read("hhis")
        if key == _API_VERSIONS:
            # A client that asks in a newer version gets an answer in the oldest one.
            answer = _packed("hi", _UNSUPPORTED if version else 0, len(_ANSWERS))
            answer += b"".join(_packed("hhh", api_key, 0, newest) for api_key, (newest, _) in _ANSWERS.items())
        else:
            answer = _ANSWERS[key][1](self, request)
        self.write(_packed("ii", len(answer) + 4, correlation_id) + answer)

    def _broker_address(self) -> bytes:
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")
        return _packed("i", 1) + _text(host) + _packed("i", port)

    def _metadata(self, request: "_Reader") -> bytes:
        topics = []
        for [name] in request.rows("s"):
            each = [_packed("hiiiiii", 0, number, 1, 1, 1, 1, 1) for number in range(self._partitions.get(name, 1))]
            topics.append(_packed("h", 0) + _text(name) + _packed("?", False) + _list(each))
        rack = no_name = _packed("h", -1)
        return _packed("i", 0) + _list([self._broker_address() + rack]) + no_name + _packed("i", 1) + _list(topics)

    def _created(self, request: "_Reader") -> bytes:
        # Topics with their replicas; the lists of assignments and settings are empty.
        created = {name: partitions for name, partitions, *_ in request.rows("sihii")}
        self._partitions.update(created)
        return _list([_text(name) + _packed("hh", 0, -1) for name in created])

    def _fetched(self, request: "_Reader") -> bytes:
        request.read("iiiib")
        self._record_batch = self._record_batch or self._batch()

        def partition(number: int, offset: int, _: int) -> bytes:
            size = len(self._record_batch) + 8
            return _packed("ihqqiiq", number, 0, _ENDLESS, _ENDLESS, 0, size, offset) + self._record_batch

        return _packed("i", 0) + request.topics("qi", partition)

    def _batch(self) -> bytes:
        rows = []
        for row, body in enumerate(self.bodies):
            # Attributes, timestamp delta, offset delta, no key; the body; no headers.
            record = b"\0\0" + _varint(row) + b"\1" + _varint(self.size) + body.tobytes() + b"\0"
            rows.append(_varint(len(record)) + record)
        answer = _BATCH_HEAD.pack(0, len(rows) - 1, 0, 0, -1, -1, -1, len(rows)) + b"".join(rows)
        return _BATCH_BEGIN.pack(len(answer) + _BATCH_BEGIN.size - 4, 0, _MAGIC, google_crc32c.value(answer)) + answer


class _Reader:
    """Reads the values of a request. Kinds of values are those of struct, "s" for a string, "d" for bytes."""

    def __init__(self, request: bytearray, at: int) -> None:
        self._request = request
        self._at = at

    def read(self, kinds: str) -> list[_Value]:
        return [self._value(kind) for kind in kinds]

    def rows(self, kinds: str) -> list[list[_Value]]:
        return [self.read(kinds) for _ in range(self._value("i"))]

    def topics(self, kinds: str, answer: Callable[..., bytes]) -> bytes:
        """Read partitions grouped by topic, each a number and values of `kinds`; encode the answers for them."""
        topics = [(self._value("s"), self.rows("i" + kinds)) for _ in range(self._value("i"))]
        return _list([_text(name) + _list([answer(*row) for row in rows]) for name, rows in topics])

    def _value(self, kind: str) -> _Value:
        if kind == "s":
            return self._bytes(self._value("h")).decode()
        if kind == "d":
            return self._bytes(self._value("i"))
        begin, self._at = self._at, self._at + struct.calcsize(">" + kind)
        return struct.unpack_from(">" + kind, self._request, begin)[0]

    def _bytes(self, size: int) -> bytearray:
        """A negative size means null, which is treated as empty."""
        begin, self._at = self._at, self._at + max(0, size)
        return self._request[begin : self._at]


def _produced(_: KafkaNullServer, request: _Reader) -> bytes:
    request.read("shi")
    return request.topics("d", lambda partition, _: _packed("ihqq", partition, 0, 0, -1)) + _packed("i", 0)


def _offsets(_: KafkaNullServer, request: _Reader) -> bytes:
    request.read("i")
    return request.topics("q", lambda partition, _: _packed("ihqq", partition, 0, -1, 0))


def _joined(_: KafkaNullServer, request: _Reader) -> bytes:
    """Every consumer is the only member of its group, and its leader."""
    request.read("siss")
    (name, metadata), *_others = request.rows("sd")
    member = _text("member")
    return _packed("hi", 0, 1) + _text(name) + member + member + _list([member + _bytes(metadata)])


def _synced(_: KafkaNullServer, request: _Reader) -> bytes:
    request.read("sis")
    [(_member, share)] = request.rows("sd")
    return _packed("h", 0) + _bytes(share)


def _committed(_: KafkaNullServer, request: _Reader) -> bytes:
    request.read("sisq")
    return request.topics("qs", lambda partition, *_: _packed("ih", partition, 0))


def _position(_: KafkaNullServer, request: _Reader) -> bytes:
    """No group has committed anything."""
    request.read("s")
    return request.topics("", lambda partition: _packed("iqhh", partition, -1, -1, 0))


def _packed(kinds: str, *values: int) -> bytes:
    return struct.pack(">" + kinds, *values)


def _text(text: str) -> bytes:
    data = text.encode()
    return _packed("h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return _packed("i", len(data)) + data


def _list(values: list[bytes]) -> bytes:
    return _packed("i", len(values)) + b"".join(values)


def _varint(number: int) -> bytes:
    """Encode a non-negative number as a zigzag varint."""
    number, encoded = number * 2, b""
    while number > 0x7F:
        encoded += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return encoded + bytes((number,))


# For each API key: the newest version that is supported, and the function that answers it.
_ANSWERS: Final[Mapping[int, tuple[int, Callable[[KafkaNullServer, _Reader], bytes]]]] = {
    0: (3, _produced),
    1: (4, KafkaNullServer._fetched),
    2: (1, _offsets),
    3: (4, KafkaNullServer._metadata),
    8: (2, _committed),
    9: (1, _position),
    10: (0, lambda null, _: _packed("h", 0) + null._broker_address()),
    11: (0, _joined),
    12: (0, lambda *_: _packed("h", 0)),
    13: (0, lambda *_: _packed("h", 0)),
    14: (0, _synced),
    _API_VERSIONS: (0, lambda *_: b""),
    19: (1, KafkaNullServer._created),
    22: (0, lambda *_: _packed("ihqh", 0, 0, 1, 0)),
}
