"""The null server of Kafka: one broker, whose topics have whatever partitions are wanted and are endless.

Each request has one version here, none of which is newer than it must be.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import google_crc32c

from mqlab.drivers.null_server.api import NullServer

_SIZE: Final = struct.Struct(">i")
_VERSIONS_ASKED: Final = 18
_UNSUPPORTED: Final = 35
_ENDLESS: Final = 2**62
# Of one batch of messages, which is what a broker keeps and delivers.
_BATCH_BYTES: Final = 64 * 1024
# Length of what follows, epoch, format, checksum of what follows. The first offset stands before all that.
_BATCH_BEGIN: Final = struct.Struct(">iibI")
# Attributes, last offset, times, producer with epoch and number, messages; all counted from the first offset.
_BATCH_HEAD: Final = struct.Struct(">hiqqqhii")
_FORMAT: Final = 2


class KafkaNullServer(NullServer):
    # Of all connections.
    _partitions: ClassVar[dict[str, int]] = {}

    def __init__(self, size: int, batch: int) -> None:  # noqa: ARG002 - how much a broker keeps together is its own
        super().__init__(size, max(1, _BATCH_BYTES // size))
        self._seen = bytearray()
        self._messages = b""

    def received(self, data: memoryview) -> None:
        seen, at = self._seen, 0
        seen += data
        while len(seen) - at >= _SIZE.size:
            size = _SIZE.unpack_from(seen, at)[0]
            if size < 0:
                self.refuse()
                return
            end = at + _SIZE.size + size
            if end > len(seen):
                break
            self._answer(_Reader(seen, at + _SIZE.size))
            at = end
        del seen[:at]

    def more(self) -> bytes | None:
        return None  # its clients ask for all that they get

    def _answer(self, asked: "_Reader") -> None:
        # The name of the client too.
        kind, version, number, _ = asked.read("hhis")
        if kind == _VERSIONS_ASKED:
            # A newer one than is known here is answered as the oldest.
            said = _packed("hi", _UNSUPPORTED if version else 0, len(_ANSWERS))
            said += b"".join(_packed("hhh", key, 0, newest) for key, (newest, _) in _ANSWERS.items())
        else:
            said = _ANSWERS[kind][1](self, asked)
        self.write(_packed("ii", len(said) + 4, number) + said)

    def _place(self) -> bytes:
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")
        return _packed("i", 1) + _text(host) + _packed("i", port)

    def _metadata(self, asked: "_Reader") -> bytes:
        topics = []
        for [name] in asked.rows("s"):
            each = [_packed("hiiiiii", 0, number, 1, 1, 1, 1, 1) for number in range(self._partitions.get(name, 1))]
            topics.append(_packed("h", 0) + _text(name) + _packed("?", False) + _list(each))
        rack = no_name = _packed("h", -1)
        return _packed("i", 0) + _list([self._place() + rack]) + no_name + _packed("i", 1) + _list(topics)

    def _created(self, asked: "_Reader") -> bytes:
        # Beside their replicas, with neither places nor settings.
        wanted = {name: partitions for name, partitions, *_ in asked.rows("sihii")}
        self._partitions.update(wanted)
        return _list([_text(name) + _packed("hh", 0, -1) for name in wanted])

    def _fetched(self, asked: "_Reader") -> bytes:
        asked.read("iiiib")
        self._messages = self._messages or self._batch()

        def partition(number: int, offset: int, _: int) -> bytes:
            size = len(self._messages) + 8
            return _packed("ihqqiiq", number, 0, _ENDLESS, _ENDLESS, 0, size, offset) + self._messages

        return _packed("i", 0) + asked.topics("qi", partition)

    def _batch(self) -> bytes:
        rows = []
        for row, body in enumerate(self.bodies):
            # Attributes, time, offset, no key; the body; no headers.
            record = b"\0\0" + _varint(row) + b"\1" + _varint(self.size) + body.tobytes() + b"\0"
            rows.append(_varint(len(record)) + record)
        said = _BATCH_HEAD.pack(0, len(rows) - 1, 0, 0, -1, -1, -1, len(rows)) + b"".join(rows)
        return _BATCH_BEGIN.pack(len(said) + _BATCH_BEGIN.size - 4, 0, _FORMAT, google_crc32c.value(said)) + said


class _Reader:
    """What a request says, value after value. Kinds of values: those of struct, "s" for text, "d" for data."""

    def __init__(self, request: bytearray, at: int) -> None:
        self._request = request
        self._at = at

    def read(self, kinds: str) -> list[Any]:
        return [self._value(kind) for kind in kinds]

    def rows(self, kinds: str) -> list[list[Any]]:
        return [self.read(kinds) for _ in range(self._value("i"))]

    def topics(self, kinds: str, answer: Callable[..., bytes]) -> bytes:
        """What is asked of partitions, grouped by topics: answers to their numbers, each with values of these kinds."""
        topics = [(self._value("s"), self.rows("i" + kinds)) for _ in range(self._value("i"))]
        return _list([_text(name) + _list([answer(*row) for row in rows]) for name, rows in topics])

    def _value(self, kind: str) -> Any:
        if kind == "s":
            return self._bytes(self._value("h")).decode()
        if kind == "d":
            return self._bytes(self._value("i"))
        begin, self._at = self._at, self._at + struct.calcsize(">" + kind)
        return struct.unpack_from(">" + kind, self._request, begin)[0]

    def _bytes(self, size: int) -> bytearray:
        """A negative size is that of none, which is as good as an empty one."""
        begin, self._at = self._at, self._at + max(0, size)
        return self._request[begin : self._at]


def _produced(_: KafkaNullServer, asked: _Reader) -> bytes:
    asked.read("shi")
    return asked.topics("d", lambda partition, _: _packed("ihqq", partition, 0, 0, -1)) + _packed("i", 0)


def _offsets(_: KafkaNullServer, asked: _Reader) -> bytes:
    asked.read("i")
    return asked.topics("q", lambda partition, _: _packed("ihqq", partition, 0, -1, 0))


def _joined(_: KafkaNullServer, asked: _Reader) -> bytes:
    """Everybody is alone in a group, and leads it."""
    asked.read("siss")
    (name, metadata), *_others = asked.rows("sd")
    member = _text("one")
    return _packed("hi", 0, 1) + _text(name) + member + member + _list([member + _bytes(metadata)])


def _synced(_: KafkaNullServer, asked: _Reader) -> bytes:
    asked.read("sis")
    [(_member, share)] = asked.rows("sd")
    return _packed("h", 0) + _bytes(share)


def _committed(_: KafkaNullServer, asked: _Reader) -> bytes:
    asked.read("sisq")
    return asked.topics("qs", lambda partition, *_: _packed("ih", partition, 0))


def _position(_: KafkaNullServer, asked: _Reader) -> bytes:
    """No group has committed anything."""
    asked.read("s")
    return asked.topics("", lambda partition: _packed("iqhh", partition, -1, -1, 0))


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
    """Of a number that is not negative, as one that could be."""
    number, said = number * 2, b""
    while number > 0x7F:
        said += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return said + bytes((number,))


# By kind: the newest version that is known here, and the answer to it.
_ANSWERS: Final[Mapping[int, tuple[int, Callable[[KafkaNullServer, _Reader], bytes]]]] = {
    0: (3, _produced),
    1: (4, KafkaNullServer._fetched),
    2: (1, _offsets),
    3: (4, KafkaNullServer._metadata),
    8: (2, _committed),
    9: (1, _position),
    10: (0, lambda null, _: _packed("h", 0) + null._place()),
    11: (0, _joined),
    12: (0, lambda *_: _packed("h", 0)),
    13: (0, lambda *_: _packed("h", 0)),
    14: (0, _synced),
    _VERSIONS_ASKED: (0, lambda *_: b""),
    19: (1, KafkaNullServer._created),
    22: (0, lambda *_: _packed("ihqh", 0, 0, 1, 0)),
}
