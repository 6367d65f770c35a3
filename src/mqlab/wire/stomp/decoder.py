"""Decodes a stream of bytes into frames."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqlab.wire.stomp.frames import COMMANDS, CONNECT_COMMANDS, WITH_BODY, StompError, StompFrame, unescape
from mqlab.wire.stomp.runs import MIN_ROWS, FrameRun, Shape, Span, find_run

_LINE_ENDS: Final = re.compile(rb"[\r\n]*")
_HEADER: Final = re.compile(r"^([^:\n]+):([^\n]*)", re.MULTILINE)
_CONTENT_LENGTH: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
# No command is longer than UNSUBSCRIBE: without a line end by then, the peer uses another protocol.
_MAX_COMMAND: Final = 32
# Decoded heads are cached: so many, and of so many bytes at most.
_MAX_CACHED_HEADS: Final = 64
_MAX_CACHED_BYTES: Final = 512
# After a search for a run that found none, so many frames are decoded one by one.
_PAUSE: Final = 32
# In 1.0, blanks around a value are not part of it, so values of equal width cannot be compared.
_WITH_RUNS: Final = ("1.1", "1.2")
# An error text quotes so many characters of untrusted input.
_MAX_QUOTED: Final = 80
_LINE_END: Final = ord("\n")


@dataclass(frozen=True)
class Limits:
    """The number of headers; and the bytes of one header line, of the head and of the body."""

    headers: int = 100
    line: int = 8 * 1024
    head: int = 64 * 1024
    body: int = 16 * 1024 * 1024


class StompHead(NamedTuple):
    command: str
    headers: Mapping[str, str]
    # Length of the body; -1: it ends with the first NUL.
    length: int


class StompFrameDecoder:
    """Bytes in, frames out. `version` is "" until it is negotiated; it and `limits` may be set between two frames.

    Values of the headers in `varying` may differ between the frames of one run.
    """

    def __init__(self, limits: Limits, version: str = "", varying: frozenset[str] = frozenset()) -> None:
        self.limits = limits
        self.varying = varying
        self._version = version
        self._parts: list[bytes] = []
        self._held = 0
        # The next frame is incomplete before so many bytes have arrived and, with `_awaits_nul`, before a NUL has.
        self._needed = 0
        self._awaits_nul = False
        self._heads: dict[bytes, StompHead] = {}
        self._pause = 0

    @property
    def unfinished(self) -> int:
        """The bytes of an incomplete frame."""
        return self._held

    @property
    def version(self) -> str:
        return self._version

    @version.setter
    def version(self, version: str) -> None:
        self._version = version
        self._heads.clear()

    def feed(self, data: bytes) -> Iterator[StompFrame]:
        """All complete frames. Raises StompError after the last valid one, and is not usable after that."""
        for frame in self._split(data, runs=False):
            assert isinstance(frame, StompFrame)
            yield frame

    def feed_runs(self, data: bytes) -> Iterator[StompFrame | FrameRun]:
        """The same, with consecutive frames of the same shape as one run."""
        return self._split(data, runs=True)

    def _split(self, data: bytes, *, runs: bool) -> Iterator[StompFrame | FrameRun]:
        whole = self._buffered(data)
        if whole is None:
            return
        begin, size = 0, len(whole)
        try:
            while begin < size:
                if whole[begin] in b"\r\n":
                    begin = self._after_line_ends(whole, begin)
                    continue
                head, body_at, end = self._next(whole, begin)
                if end < 0:
                    break
                run = self._run(whole, begin, head, body_at, end) if runs and self._pause <= 0 else None
                if run is not None:
                    begin += run.table.size
                    yield run
                    continue
                self._pause -= 1
                begin = end + 1
                body = whole[body_at:end] if head.command in WITH_BODY else b""
                yield StompFrame(head.command, head.headers, body)
        finally:
            if begin < size:
                self._parts, self._held = [whole[begin:]], size - begin

    def _buffered(self, data: bytes) -> bytes | None:
        """All bytes that have arrived; None while they cannot hold a complete frame."""
        if self._held:
            awaited = self._held + len(data) < self._needed
            if not awaited and self._awaits_nul:
                awaited = b"\0" not in data
                if awaited and self._held + len(data) > self.limits.head + self.limits.body:
                    raise StompError(f"a body without an end; the limit is {self.limits.body}")
            if data:
                self._parts.append(data)
                self._held += len(data)
            if awaited:
                return None
            data = b"".join(self._parts)
        self._parts, self._held, self._needed, self._awaits_nul = [], 0, 0, False
        return data

    def _after_line_ends(self, whole: bytes, begin: int) -> int:
        """Line ends between frames are heart-beats."""
        match = _LINE_ENDS.match(whole, begin)
        assert match is not None
        return match.end()

    def _next(self, whole: bytes, begin: int) -> tuple[StompHead, int, int]:
        """The head of the frame, the offset of its body, and that of its NUL: -1 if the frame is incomplete."""
        head_end, body_at = self._blank_line(whole, begin)
        if head_end < 0:
            self._check_unfinished(whole, begin)
            return _NOTHING, 0, -1
        written = whole[begin:head_end]
        head = self._heads.get(written) or self._read(written)
        command, _, length = head
        if length < 0:
            end = whole.find(b"\0", body_at)
            length = (end if end >= 0 else len(whole)) - body_at
            self._awaits_nul = end < 0
        else:
            end = body_at + length
            if end >= len(whole):
                self._needed, end = end + 1 - begin, -1
            elif whole[end]:
                raise StompError(f"no NUL after a body of {length} bytes")
        if length > self.limits.body:
            raise StompError(f"a body of {length} bytes; the limit is {self.limits.body}")
        if length and command not in WITH_BODY and whole[body_at : body_at + length].strip(b"\r\n"):
            raise StompError(f"{command} cannot have a body")
        return head, body_at, end

    def _blank_line(self, whole: bytes, begin: int) -> Span:
        """The offsets of the end of the headers (-1: incomplete) and of the body."""
        end = whole.find(b"\n\n", begin)
        body_at = end + 2
        if self._version not in ("1.0", "1.1"):
            carriage = whole.find(b"\n\r\n", begin, end if end >= 0 else len(whole))
            if carriage >= 0:
                end, body_at = carriage, carriage + 3
        return end, body_at

    def _check_unfinished(self, whole: bytes, begin: int) -> None:
        """Raises StompError if the incomplete head cannot become a valid one."""
        if whole.find(b"\n", begin, begin + _MAX_COMMAND) < 0 and len(whole) - begin >= _MAX_COMMAND:
            raise StompError(f"not a frame: {whole[begin : begin + _MAX_COMMAND]!r}")
        if whole.find(b"\0", begin) >= 0:
            raise StompError("a frame without an empty line after its headers")
        if len(whole) - begin > self.limits.head:
            raise StompError(f"headers of more than {self.limits.head} bytes")

    def _read(self, written: bytes) -> StompHead:
        limits, version = self.limits, self._version
        if len(written) > limits.head:
            raise StompError(f"headers of {len(written)} bytes; the limit is {limits.head}")
        try:
            text = written.decode()
        except UnicodeDecodeError as error:
            raise StompError("headers that are not UTF-8") from error
        if "\0" in text:
            raise StompError("a frame without an empty line after its headers")
        if "\r" in text and version not in ("1.0", "1.1"):
            text = f"{text}\n".replace("\r\n", "\n")[:-1]
        command, _, lines = text.partition("\n")
        if command not in COMMANDS:
            raise StompError(f"not a frame: {command[:_MAX_COMMAND]!r}")
        headers = _headers(lines, "1.0" if command in CONNECT_COMMANDS else version, limits)
        head = StompHead(command, headers, _length(headers))
        if len(written) <= _MAX_CACHED_BYTES:
            if len(self._heads) >= _MAX_CACHED_HEADS:
                self._heads.clear()
            self._heads[written] = head
        return head

    def _run(self, whole: bytes, begin: int, head: StompHead, body_at: int, end: int) -> FrameRun | None:
        """The run that begins with this frame, if enough frames have its shape."""
        following = end + 1
        while following < len(whole) and whole[following] == _LINE_END:
            following += 1
        step = following - begin
        # The rows of a run may have any body, so a frame of a command without a body must not have one.
        if self._version in _WITH_RUNS and (head.length >= 0 if head.command in WITH_BODY else end == body_at):
            # A cheap test first: the next frame, and a later one, begin with the same command.
            far, word = begin + (MIN_ROWS - 1) * step, f"{head.command}\n".encode()
            likely = whole.startswith(word, following) and whole.startswith(word, far)
            body = (body_at - begin, end - begin)
            shape = _shape(whole[begin:body_at], head, body, self._version) if likely else None
            run = find_run(whole, begin, step, shape, self.varying, self._version) if shape else None
            if run is not None:
                return run
        self._pause = _PAUSE
        return None


_NOTHING: Final = StompHead("", {}, -1)


def _headers(lines: str, version: str, limits: Limits) -> dict[str, str]:
    pairs = _HEADER.findall(lines)
    count = lines.count("\n") + 1 if lines else 0
    if count > limits.headers:
        raise StompError(f"{count} headers; the limit is {limits.headers}")
    if len(pairs) != count:
        wrong = next(line for line in lines.split("\n") if not _HEADER.match(line))
        raise StompError(f"not a header: {wrong[:_MAX_QUOTED]!r}")
    if len(lines) > limits.line and (longest := max(map(len, lines.split("\n")))) > limits.line:
        raise StompError(f"a header of {longest} characters; the limit is {limits.line}")
    if version == "1.0":
        pairs = [(name, value.strip(" ")) for name, value in pairs]
    elif "\\" in lines:
        pairs = [
            (unescape(name, version), unescape(value, version)) if "\\" in name or "\\" in value else (name, value)
            for name, value in pairs
        ]
    headers = dict(pairs)
    # The first of repeated headers counts.
    return headers if len(headers) == count else dict(reversed(pairs))


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length")
    if text is None:
        return -1
    if not _CONTENT_LENGTH.fullmatch(text):
        raise StompError(f"content-length {text[:_MAX_QUOTED]!r} is not a length")
    return int(text)


def _shape(written: bytes, head: StompHead, body: Span, version: str) -> Shape | None:
    """None if a line ends with CR LF."""
    if b"\r" in written:
        return None
    spans: dict[str, Span] = {}
    at = written.index(b"\n") + 1
    while (line_end := written.index(b"\n", at)) > at:
        colon = written.index(b":", at)
        # The first of repeated headers counts.
        spans.setdefault(unescape(written[at:colon].decode(), version), (colon + 1, line_end))
        at = line_end + 1
    return Shape(head.command, head.headers, spans, body)
