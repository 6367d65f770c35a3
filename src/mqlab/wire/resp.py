"""RESP, version 2: commands to a Redis server, and its replies.

Three kinds of replies are frequent and parsed many at once: repeated short replies, published messages, and the entries
of a stream. An entry has the field `b`, its body, and before that optionally `r`, the destination of its reply.
"""

import re
from typing import Final, NamedTuple

from mqlab.errors import MqlabError
from mqlab.wire.equal_frames import FrameTemplate, bodies_at, count_equal_frames, equal_bodies
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

_END: Final = b"\r\n"
_MAX_DEPTH: Final = 8
_MAX_LINE_BYTES: Final = 64 * 1024
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
    """The bytes are not a valid reply of a Redis server."""


class ErrorReply(NamedTuple):
    """The server's error reply to a command."""

    words: str


class StreamEntries(NamedTuple):
    """Entries of one stream; `replies`: the destination of the reply to each, or b""."""

    ids: list[bytes]
    replies: list[bytes]
    bodies: Bodies


Value = bytes | int | None | ErrorReply | StreamEntries | list["Value"]


class ParsedResp(NamedTuple):
    """`consumed` bytes were complete replies; the next reply needs at least `needed` bytes (0: not known)."""

    published: list[Bodies]
    values: list[Value]
    consumed: int
    needed: int


class _IncompleteReplyError(MqlabError):
    """The reply is incomplete: it ends at offset `until` at the earliest."""

    def __init__(self, until: int) -> None:
        self.until = until


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in words])


def template(*words: bytes, size: int) -> FrameTemplate:
    """A template of a command that ends with a body of `size` bytes."""
    head = b"*%d\r\n" % (len(words) + 1) + b"".join([b"$%d\r\n%s\r\n" % (len(word), word) for word in words])
    return FrameTemplate(head + b"$%d\r\n" % size, _END, size)


def parse(data: Bytes, limit: int) -> ParsedResp:
    """Parse the complete replies at the beginning of `data`. No string may have more than `limit` bytes.

    Raises MalformedRespError.
    """
    published: list[Bodies] = []
    values: list[Value] = []
    view, at, end, needed = data.data, 0, len(data), 0
    try:
        while at < end:
            match = _PUBLISHED.match(view, at)
            if match is not None:
                size, begin = _check_size(int(match[3]), limit), match.end()
                _check_end(view, begin + size)
                rows = count_equal_frames(data, at, begin - at, size, 2)
                published.append(equal_bodies(data, at, rows, begin - at, size, 2))
                at += rows * (begin - at + size + 2)
                continue
            value, after = _value(data, at, limit, 0)
            rows = 1
            # Equal short replies often follow one another.
            if after - at < 16 and view[at:after] == view[after : after + after - at]:
                rows = count_equal_frames(data, at, after - at, 0, 0)
            values += [value] * rows
            at += rows * (after - at)
    except _IncompleteReplyError as error:
        needed = max(0, error.until - at)
    return ParsedResp(published, values, at, needed)


def _value(data: Bytes, at: int, limit: int, depth: int) -> tuple[Value, int]:
    view = data.data
    match = _LINE.match(view, at)
    if match is None:
        line = bytes(view[at : at + _MAX_LINE_BYTES])
        if _END in line or len(line) == _MAX_LINE_BYTES or (line and line[:1] not in b"+-:$*"):
            raise MalformedRespError(f"not a reply: {line[:40]!r}")
        raise _IncompleteReplyError(0)
    kind, text, after = match[1], match[2], match.end()
    if kind == b"+":
        return text, after
    if kind == b"-":
        return ErrorReply(text.decode(errors="replace")), after
    if _NUMBER.fullmatch(text) is None:
        raise MalformedRespError(f"{text[:40]!r} is not a number")
    number = int(text)
    if kind == b":":
        return number, after
    if number < 0:
        return None, after
    if kind == b"$":
        _check_size(number, limit)
        _check_end(view, after + number)
        return bytes(view[after : after + number]), after + number + 2
    return _array(data, at, number, after, limit, depth)


def _array(data: Bytes, at: int, count: int, after: int, limit: int, depth: int) -> tuple[Value, int]:
    if depth == _MAX_DEPTH:
        raise MalformedRespError(f"arrays nested more than {_MAX_DEPTH} deep")
    stream = _STREAM.match(data.data, at)
    if stream is not None:
        return _entries(data, _check_size(int(stream[1]), limit), stream.end(), limit)
    values: list[Value] = []
    for _ in range(_check_size(count, limit)):
        value, after = _value(data, after, limit, depth + 1)
        values.append(value)
    return values, after


def _entries(data: Bytes, count: int, at: int, limit: int) -> tuple[Value, int]:
    view = data.data
    ids: list[bytes] = []
    replies: list[bytes] = []
    begins: list[int] = []
    sizes: list[int] = []
    for _ in range(count):
        match = _ENTRY.match(view, at)
        if match is None:
            # Parsed as any other reply, it is malformed or incomplete.
            _value(data, at, limit, 1)
            raise MalformedRespError("a stream entry with other fields than r and b")
        size, begin = _check_size(int(match[3]), limit), match.end()
        _check_end(view, begin + size)
        ids.append(match[1])
        replies.append(match[2] or b"")
        begins.append(begin)
        sizes.append(size)
        at = begin + size + 2
    return StreamEntries(ids, replies, bodies_at(data, begins, sizes)), at


def _check_size(size: int, limit: int) -> int:
    if size > limit:
        raise MalformedRespError(f"{size} bytes or elements; the limit is {limit}")
    return size


def _check_end(view: memoryview, at: int) -> None:
    """Check that a string ends there."""
    if at + 2 > len(view):
        raise _IncompleteReplyError(at + 2)
    if bytes(view[at : at + 2]) != _END:
        raise MalformedRespError("a string that is longer than its announced length")
