"""RESP, version 2: commands to a Redis server, and its replies.

Three things that come by the thousand are split at once: the same reply many times, what was published, and the
entries of a stream. An entry has the field `b`, its body, and before that maybe `r`, where its reply should go.
"""

import re
from typing import Final, NamedTuple

from mqlab.errors import MqlabError
from mqlab.wire.equal_frames import FrameTemplate, bodies_at, count_equal_frames, equal_bodies
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

_END: Final = b"\r\n"
_DEEPEST: Final = 8
_LONGEST_LINE: Final = 64 * 1024
_LINE: Final = re.compile(rb"([+\-:$*])([^\r\n]*)\r\n")
_NUMBER: Final = re.compile(rb"-?\d{1,19}")
_PUBLISHED: Final = re.compile(rb"\*3\r\n\$7\r\nmessage\r\n\$(\d{1,10})\r\n([^\r\n]*)\r\n\$(\d{1,10})\r\n")
_STREAM: Final = re.compile(
    rb"(?:\*1\r\n\*2\r\n\$\d{1,10}\r\n[^\r\n]*\r\n)?\*(\d{1,10})\r\n(?=\*2\r\n\$\d{1,3}\r\n\d+-\d+\r\n\*[24]\r\n)"
)
_ENTRY: Final = re.compile(
    rb"\*2\r\n\$\d{1,3}\r\n(\d+-\d+)\r\n\*[24]\r\n(?:\$1\r\nr\r\n\$\d{1,10}\r\n([^\r\n]*)\r\n)?"
    rb"\$1\r\nb\r\n\$(\d{1,10})\r\n"
)


class MalformedRespError(MqlabError, ValueError):
    """What came is not what a Redis server says."""


class ErrorReply(NamedTuple):
    """The server's reply to a command that it did not obey."""

    words: str


class StreamEntries(NamedTuple):
    """Of one stream; `replies` are where each wants its reply, b"" if it wants none."""

    ids: list[bytes]
    replies: list[bytes]
    bodies: Bodies


Value = bytes | int | None | ErrorReply | StreamEntries | list["Value"]


class ParsedResp(NamedTuple):
    """`consumed` bytes were whole; the next reply is whole with `needed` bytes at the earliest (0: not known)."""

    published: list[Bodies]
    values: list[Value]
    consumed: int
    needed: int


class _Torn(MqlabError):  # noqa: N818 - never leaves this file
    """The reply goes on; it will have so many bytes at least."""

    def __init__(self, until: int) -> None:
        self.until = until


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in words])


def template(*words: bytes, size: int) -> FrameTemplate:
    """A command that ends with a body of so many bytes."""
    head = b"*%d\r\n" % (len(words) + 1) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in words])
    return FrameTemplate(head + b"$%d\r\n" % size, _END, size)


def parse(data: Bytes, most: int) -> ParsedResp:
    """All whole replies at the beginning of what came; none may have a string of more than `most` bytes.

    Raises MalformedRespError.
    """
    published: list[Bodies] = []
    values: list[Value] = []
    view, at, end, needed = data.data, 0, len(data), 0
    try:
        while at < end:
            match = _PUBLISHED.match(view, at)
            if match is not None:
                size, begin = _checked(int(match[3]), most), match.end()
                _ended(view, begin + size)
                rows = count_equal_frames(data, at, begin - at, size, 2)
                published.append(equal_bodies(data, at, rows, begin - at, size, 2))
                at += rows * (begin - at + size + 2)
                continue
            value, after = _value(data, at, most, 0)
            rows = 1
            # Short replies come in long rows of the same.
            if after - at < 16 and view[at:after] == view[after : after + after - at]:
                rows = count_equal_frames(data, at, after - at, 0, 0)
            values += [value] * rows
            at += rows * (after - at)
    except _Torn as torn:
        needed = max(0, torn.until - at)
    return ParsedResp(published, values, at, needed)


def _value(data: Bytes, at: int, most: int, depth: int) -> tuple[Value, int]:
    view = data.data
    match = _LINE.match(view, at)
    if match is None:
        line = bytes(view[at : at + _LONGEST_LINE])
        if _END in line or len(line) == _LONGEST_LINE or (line and line[:1] not in b"+-:$*"):
            raise MalformedRespError(f"what is {line[:40]!r}?")
        raise _Torn(0)
    kind, text, after = match[1], match[2], match.end()
    if kind == b"+":
        return text, after
    if kind == b"-":
        return ErrorReply(text.decode(errors="replace")), after
    if _NUMBER.fullmatch(text) is None:
        raise MalformedRespError(f"{text[:40]!r} is no number")
    number = int(text)
    if kind == b":":
        return number, after
    if number < 0:
        return None, after
    if kind == b"$":
        _checked(number, most)
        _ended(view, after + number)
        return bytes(view[after : after + number]), after + number + 2
    return _array(data, at, number, after, most, depth)


def _array(data: Bytes, at: int, count: int, after: int, most: int, depth: int) -> tuple[Value, int]:
    if depth == _DEEPEST:
        raise MalformedRespError(f"more than {_DEEPEST} arrays in each other")
    stream = _STREAM.match(data.data, at)
    if stream is not None:
        return _entries(data, _checked(int(stream[1]), most), stream.end(), most)
    values: list[Value] = []
    for _ in range(_checked(count, most)):
        value, after = _value(data, after, most, depth + 1)
        values.append(value)
    return values, after


def _entries(data: Bytes, count: int, at: int, most: int) -> tuple[Value, int]:
    view = data.data
    ids: list[bytes] = []
    replies: list[bytes] = []
    begins: list[int] = []
    sizes: list[int] = []
    for _ in range(count):
        match = _ENTRY.match(view, at)
        if match is None:
            # As a reply of any kind it is malformed, or torn.
            _value(data, at, most, 1)
            raise MalformedRespError("an entry of a stream that has not just a body")
        size, begin = _checked(int(match[3]), most), match.end()
        _ended(view, begin + size)
        ids.append(match[1])
        replies.append(match[2] or b"")
        begins.append(begin)
        sizes.append(size)
        at = begin + size + 2
    return StreamEntries(ids, replies, bodies_at(data, begins, sizes)), at


def _checked(size: int, most: int) -> int:
    if size > most:
        raise MalformedRespError(f"{size} bytes or elements; the limit is {most}")
    return size


def _ended(view: memoryview, at: int) -> None:
    """A string ends there."""
    if at + 2 > len(view):
        raise _Torn(at + 2)
    if bytes(view[at : at + 2]) != _END:
        raise MalformedRespError("a string that is longer than it says")
