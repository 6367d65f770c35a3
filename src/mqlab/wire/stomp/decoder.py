"""A stream of bytes, cut anywhere, becomes frames."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqlab.wire.stomp.frames import COMMANDS, GREETINGS, WITH_BODY, StompError, StompFrame, unescape
from mqlab.wire.stomp.runs import MIN_ROWS, FrameRun, Shape, Span, find_run

_LINE_ENDS: Final = re.compile(rb"[\r\n]*")
_HEADER: Final = re.compile(r"^([^:\n]+):([^\n]*)", re.MULTILINE)
_CONTENT_LENGTH: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
# No command is longer than UNSUBSCRIBE: what has no line end by then is another protocol.
_COMMAND: Final = 32
# Heads that were read before are not read again; so many are remembered, and never large ones.
_HEADS: Final = 64
_HEAD_KEPT: Final = 512
# After a search for a run that found none, so many frames are taken one by one.
_PAUSE: Final = 32
# 1.0 has values with blanks around them that are not meant.
_WITH_RUNS: Final = ("1.1", "1.2")
# Of what is wrong, in a message.
_SHOWN: Final = 80
_LINE_END: Final = ord("\n")


@dataclass(frozen=True)
class Limits:
    """Bytes, except `headers`: those of one header line, of all of them together, and of the body."""

    headers: int = 100
    line: int = 8 * 1024
    head: int = 64 * 1024
    body: int = 16 * 1024 * 1024


class StompHead(NamedTuple):
    command: str
    headers: Mapping[str, str]
    # Of the body; -1: it ends with the first NUL.
    length: int


class StompFrameDecoder:
    """`version` is "" until both sides know it; it may be set, as the limits, while frames are taken from `feed`.

    Values of the headers in `varying` may differ between the frames of one run.
    """

    def __init__(self, limits: Limits, version: str = "", varying: frozenset[str] = frozenset()) -> None:
        self.limits = limits
        self.varying = varying
        self._version = version
        self._parts: list[bytes] = []
        self._held = 0
        # Nothing can be split before so many bytes are there; and, if a NUL is awaited, before it has come.
        self._needed = 0
        self._awaits_nul = False
        self._heads: dict[bytes, StompHead] = {}
        self._pause = 0

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that has not arrived whole."""
        return self._held

    @property
    def version(self) -> str:
        return self._version

    @version.setter
    def version(self, version: str) -> None:
        self._version = version
        self._heads.clear()

    def feed(self, data: bytes) -> Iterator[StompFrame]:
        """All frames that are whole now. Raises StompError after the last good one; nothing can be split after that."""
        for found in self._split(data, runs=False):
            assert isinstance(found, StompFrame)
            yield found

    def feed_runs(self, data: bytes) -> Iterator[StompFrame | FrameRun]:
        """The same, in the same order, but frames of the same shape that follow one another as one run."""
        return self._split(data, runs=True)

    def _split(self, data: bytes, *, runs: bool) -> Iterator[StompFrame | FrameRun]:
        whole = self._gathered(data)
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

    def _gathered(self, data: bytes) -> bytes | None:
        """All bytes that are there; None while it is certain that no frame ends in them."""
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
        """Between frames they are heart-beats."""
        found = _LINE_ENDS.match(whole, begin)
        assert found is not None
        return found.end()

    def _next(self, whole: bytes, begin: int) -> tuple[StompHead, int, int]:
        """The head of the frame that begins here, where its body begins, and its NUL: -1 if that is not there."""
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
        """Where the headers end and the body begins; -1 if it is not there."""
        end, body_at = (found := whole.find(b"\n\n", begin)), found + 2
        if self._version not in ("1.0", "1.1"):
            carriage = whole.find(b"\n\r\n", begin, end if end >= 0 else len(whole))
            if carriage >= 0:
                end, body_at = carriage, carriage + 3
        return end, body_at

    def _check_unfinished(self, whole: bytes, begin: int) -> None:
        """A head that is not whole yet could become one."""
        if whole.find(b"\n", begin, begin + _COMMAND) < 0 and len(whole) - begin >= _COMMAND:
            raise StompError(f"not a frame: {whole[begin : begin + _COMMAND]!r}")
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
            raise StompError(f"not a frame: {command[:_COMMAND]!r}")
        headers = _headers(lines, "1.0" if command in GREETINGS else version, limits)
        head = StompHead(command, headers, _length(headers))
        if len(written) <= _HEAD_KEPT:
            if len(self._heads) >= _HEADS:
                self._heads.clear()
            self._heads[written] = head
        return head

    def _run(self, whole: bytes, begin: int, head: StompHead, body_at: int, end: int) -> FrameRun | None:
        """From this frame on, if enough others are like it."""
        following = end + 1
        while following < len(whole) and whole[following] == _LINE_END:
            following += 1
        step = following - begin
        # The rows of a run may have any body: of a command that has none it must be empty.
        if self._version in _WITH_RUNS and (head.length >= 0 if head.command in WITH_BODY else end == body_at):
            # A quick look before the long one: the next, and one farther off, begin as this one.
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
        raise StompError(f"not a header: {wrong[:_SHOWN]!r}")
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
    # Of those that are repeated the first counts.
    return headers if len(headers) == count else dict(reversed(pairs))


def _length(headers: Mapping[str, str]) -> int:
    text = headers.get("content-length")
    if text is None:
        return -1
    if not _CONTENT_LENGTH.fullmatch(text):
        raise StompError(f"content-length {text[:_SHOWN]!r} is no length")
    return int(text)


def _shape(written: bytes, head: StompHead, body: Span, version: str) -> Shape | None:
    """None if a line ends in some other way than most do."""
    if b"\r" in written:
        return None
    spans: dict[str, Span] = {}
    at = written.index(b"\n") + 1
    while (line_end := written.index(b"\n", at)) > at:
        colon = written.index(b":", at)
        # Of those that are repeated the first counts.
        spans.setdefault(unescape(written[at:colon].decode(), version), (colon + 1, line_end))
        at = line_end + 1
    return Shape(head.command, head.headers, spans, body)
