"""The client protocol of NATS: lines of words, each ended by CR LF; messages are followed by their body."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mqlab.errors import MqlabError
from mqlab.wire.equal_frames import FrameTemplate, bodies_at, concat_bodies, count_equal_frames, equal_bodies
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import Bytes

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
_END: Final = b"\r\n"
# The server limits the lines of clients to 4 KiB; its own INFO may list a whole cluster.
_MAX_LINE_BYTES: Final = 64 * 1024
_WORD: Final = rb"([^ \t\r\n]{1,4096})"
_MSG: Final = re.compile(rb"MSG " + _WORD + rb" " + _WORD + rb" (?:" + _WORD + rb" )?(\d{1,10})\r\n")
_HMSG: Final = re.compile(rb"HMSG " + _WORD + rb" " + _WORD + rb" (?:" + _WORD + rb" )?(\d{1,10}) (\d{1,10})\r\n")
_OTHER: Final = re.compile(rb"(INFO|PING|PONG|\+OK|-ERR)[ \t]*([^\r\n]*)\r\n")
_STATUS: Final = re.compile(rb"NATS/1\.0(?: +(\d{3}))?(?: +([^\r\n]*))?\r\n")


class MalformedNatsError(MqlabError, ValueError):
    """The bytes are not a valid message of a NATS server."""


class SubscriptionBatch(NamedTuple):
    """Messages of one subscription. `replies`: the reply subject of each, or b""."""

    sid: bytes
    bodies: Bodies
    # Runs of messages: how many, their subject, and their reply subject.
    runs: list[tuple[int, bytes, bytes]]

    @property
    def subjects(self) -> list[bytes]:
        return [subject for rows, subject, _ in self.runs for _ in range(rows)]

    @property
    def replies(self) -> list[bytes]:
        return [reply for rows, _, reply in self.runs for _ in range(rows)]


class Subjects(NamedTuple):
    """The subject of a message, and the subject for its acknowledgement or reply."""

    subject: bytes
    reply: bytes


class HeaderMessage(NamedTuple):
    """A message with headers. With a `status`, the server ends a request for messages by it."""

    sid: bytes
    subject: bytes
    reply: bytes
    status: int
    words: str
    headers: dict[str, str]
    body: bytes


class ControlLine(NamedTuple):
    """A line without a message: INFO, PING, PONG, +OK or -ERR, and its text."""

    word: str
    text: str


class ParsedNats(NamedTuple):
    """`consumed` bytes were complete frames; the next frame needs `needed` bytes (0: not known)."""

    delivered: list[SubscriptionBatch]
    others: list[HeaderMessage | ControlLine]
    consumed: int
    needed: int


def connect(options: Mapping[str, object]) -> bytes:
    return b"CONNECT " + json.dumps(options).encode() + _END


def subscribe(subject: str, sid: bytes, group: str = "") -> bytes:
    return f"SUB {subject} {group} ".replace("  ", " ").encode() + sid + _END


def unsubscribe(sid: bytes) -> bytes:
    return b"UNSUB " + sid + _END


def publish(subject: bytes, body: bytes, reply: bytes = b"") -> bytes:
    """A single message."""
    return b"%s%d\r\n%s\r\n" % (_opening(subject, reply), len(body), body)


def publish_with_headers(subject: bytes, body: bytes, headers: bytes, reply: bytes = b"") -> bytes:
    """A single message with the encoded headers."""
    opening = b"H" + _opening(subject, reply)
    return b"%s%d %d\r\n%s%s\r\n" % (opening, len(headers), len(headers) + len(body), headers, body)


def encode_headers(values: Mapping[str, int | str]) -> bytes:
    """Neither a name nor a value may contain a line end."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in values.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def publish_same(subjects: Iterable[bytes], body: bytes) -> bytes:
    """The same body to each subject."""
    after = b" %d\r\n%s\r\n" % (len(body), body)
    return b"".join([b"PUB " + subject + after for subject in subjects])


def template(subject: bytes, size: int, reply: bytes = b"") -> FrameTemplate:
    """A template of messages with bodies of one size."""
    return FrameTemplate(b"%s%d\r\n" % (_opening(subject, reply), size), _END, size)


def _opening(subject: bytes, reply: bytes) -> bytes:
    return b"PUB %s %s " % (subject, reply) if reply else b"PUB %s " % subject


def parse(data: Bytes, limit: int) -> ParsedNats:
    """Parse the complete frames at the beginning of `data`. No message may be larger than `limit` bytes.

    Messages are grouped by subscription. The order within a subscription is kept, the order between them is lost.
    Raises MalformedNatsError.
    """
    by_sid: dict[bytes, _SubscriptionMessages] = {}
    others: list[HeaderMessage | ControlLine] = []
    view, at, end, needed = data.data, 0, len(data), 0
    while at < end:
        match = _MSG.match(view, at)
        if match is None:
            other = _other(view, at, limit)
            if isinstance(other, int):
                needed = other
                break
            at, event = other
            others.append(event)
            continue
        size, begin = int(match[4]), match.end()
        after = begin + size + 2
        if size > limit:
            raise MalformedNatsError(f"a message of {size} bytes; the limit is {limit}")
        if after > end:
            needed = after - at
            break
        if bytes(view[after - 2 : after]) != _END:
            raise MalformedNatsError("a message that is longer than its announced length")
        sid = match[2]
        messages = by_sid.get(sid)
        if messages is None:
            messages = by_sid[sid] = _SubscriptionMessages(data)
        head = begin - at
        rows = 1
        if view[after : after + head] == view[at:begin]:
            rows = count_equal_frames(data, at, head, size, 2)
        messages.add(at, rows, head, size, match[1], match[3] or b"")
        at += rows * (head + size + 2)
    return ParsedNats([messages.batch(sid) for sid, messages in by_sid.items()], others, at, needed)


class _SubscriptionMessages:
    """Collects the messages of one subscription."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._done: list[Bodies] = []
        self._begins: list[int] = []
        self._sizes: list[int] = []
        self._runs: list[tuple[int, bytes, bytes]] = []

    def add(self, at: int, rows: int, head: int, size: int, subject: bytes, reply: bytes) -> None:
        self._runs.append((rows, subject, reply))
        if rows == 1:
            self._begins.append(at + head)
            self._sizes.append(size)
            return
        self._finish()
        self._done.append(equal_bodies(self._data, at, rows, head, size, 2))

    def batch(self, sid: bytes) -> SubscriptionBatch:
        self._finish()
        return SubscriptionBatch(sid, concat_bodies(self._done), self._runs)

    def _finish(self) -> None:
        if self._begins:
            self._done.append(bodies_at(self._data, self._begins, self._sizes))
            self._begins, self._sizes = [], []


def _other(view: memoryview, at: int, limit: int) -> tuple[int, HeaderMessage | ControlLine] | int:
    """The offset after this frame, and the frame; or, if it is incomplete, its length in bytes (0: not known)."""
    match = _OTHER.match(view, at)
    if match is not None:
        return match.end(), ControlLine(match[1].decode(), match[2].decode(errors="replace"))
    match = _HMSG.match(view, at)
    if match is None:
        line = bytes(view[at : at + _MAX_LINE_BYTES])
        if _END in line or len(line) == _MAX_LINE_BYTES or not _is_prefix_of_frame(line):
            raise MalformedNatsError(f"not a frame: {line[:40]!r}")
        return 0
    headers, total, begin = int(match[4]), int(match[5]), match.end()
    if total > limit or headers > total:
        raise MalformedNatsError(f"a message of {total} bytes with headers of {headers}; the limit is {limit}")
    after = begin + total + 2
    if after > len(view):
        return after - at
    if bytes(view[after - 2 : after]) != _END:
        raise MalformedNatsError("a message that is longer than its announced length")
    block, body = bytes(view[begin : begin + headers]), bytes(view[begin + headers : after - 2])
    return after, _with_headers(match[2], match[1], match[3] or b"", block, body)


def _with_headers(sid: bytes, subject: bytes, reply: bytes, block: bytes, body: bytes) -> HeaderMessage:
    first = _STATUS.match(block)
    if first is None or not block.endswith(_END):
        raise MalformedNatsError(f"headers that begin with {block[:20]!r}")
    headers = {}
    for line in block[first.end() :].decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name:
            headers[name] = value.strip()
    words = (first[2] or b"").decode(errors="replace")
    return HeaderMessage(sid, subject, reply, int(first[1] or 0), words, headers, body)


_FRAME_PREFIXES: Final = (b"MSG ", b"HMSG ", b"INFO", b"PING", b"PONG", b"+OK", b"-ERR")


def _is_prefix_of_frame(line: bytes) -> bool:
    return any(line.startswith(word[: len(line)]) for word in _FRAME_PREFIXES)
