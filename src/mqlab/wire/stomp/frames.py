"""One frame: a command, headers and a body. Each version of the protocol escapes the headers in its own way."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mqlab.errors import MqlabError

VERSIONS: Final = ("1.0", "1.1", "1.2")
_CLIENT_COMMANDS: Final = (
    "CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT",
)  # fmt: skip
_SERVER_COMMANDS: Final = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")
COMMANDS: Final = frozenset((*_CLIENT_COMMANDS, *_SERVER_COMMANDS))
# Other frames may have line ends as a body, which is ignored: some clients write them after the empty line.
WITH_BODY: Final = frozenset(("SEND", "MESSAGE", "ERROR"))
# Their headers are never escaped, so that every version can read them. STOMP is an alias of CONNECT.
CONNECT_COMMANDS: Final = frozenset(("CONNECT", "STOMP", "CONNECTED"))

_ESCAPES: Final = {
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_TABLES: Final = {version: str.maketrans(escapes) for version, escapes in _ESCAPES.items()}
_UNESCAPES: Final = {version: {code: plain for plain, code in escapes.items()} for version, escapes in _ESCAPES.items()}
_ESCAPED: Final = re.compile(r"\\.?", re.DOTALL)
# Characters that would end the line or the frame, in a version without escapes.
_UNSAFE: Final = re.compile("[\r\n\0]")


class StompError(MqlabError):
    """The peer breaks the protocol or a limit, or this version of the protocol cannot encode a header."""


class StompFrame(NamedTuple):
    """Decoded frames may share their headers, which must not be changed."""

    command: str
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


def escape(text: str, version: str) -> str:
    """Escape a name or value of a header. Raises StompError where 1.0, which has no escapes, would need one."""
    if version in _TABLES:
        return text.translate(_TABLES[version])
    if _UNSAFE.search(text):
        raise StompError("a header with a line end or NUL cannot be written without escapes")
    return text


def unescape(text: str, version: str) -> str:
    """Raises StompError for an escape that the version does not have."""
    if "\\" not in text or version not in _UNESCAPES:
        return text
    # Most escapes are colons. If a backslash is left, there are other escapes.
    if "\\" not in (quick := text.replace("\\c", ":")):
        return quick
    known = _UNESCAPES[version]

    def plain(match: re.Match[str]) -> str:
        if match[0] not in known:
            raise StompError(f"STOMP {version} has no escape {match[0]!r}")
        return known[match[0]]

    return _ESCAPED.sub(plain, text)


def encode_head(command: str, headers: Mapping[str, str], version: str) -> bytes:
    """Encode command and headers. An empty line and the body must follow."""
    plain = "1.0" if command in CONNECT_COMMANDS else version
    lines = [command]
    for name, value in headers.items():
        written = escape(name, plain)
        if not name or ":" in written:
            raise StompError(f"a header cannot have the name {name!r}")
        lines.append(f"{written}:{escape(value, plain)}")
    return "\n".join((*lines, "")).encode()


def encode(frame: StompFrame, version: str) -> bytes:
    """Encode a frame, with a content-length header."""
    command, headers, body = frame
    head = encode_head(command, headers, version)
    if command not in WITH_BODY:
        if body:
            raise StompError(f"{command} cannot have a body")
        return head + b"\n\0"
    length = b"" if "content-length" in headers else b"content-length:%d\n" % len(body)
    return b"%b%b\n%b\0" % (head, length, body)
