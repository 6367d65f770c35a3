"""One frame: a command, headers and a body; and how each version of the protocol writes the headers."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mqlab.errors import MqlabError

VERSIONS: Final = ("1.0", "1.1", "1.2")
_SAID_BY_CLIENTS: Final = (
    "CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT",
)  # fmt: skip
_SAID_BY_SERVERS: Final = ("CONNECTED", "MESSAGE", "RECEIPT", "ERROR")
COMMANDS: Final = frozenset((*_SAID_BY_CLIENTS, *_SAID_BY_SERVERS))
# Of the others, a body of line ends is ignored: some clients write one after the headers' empty line.
WITH_BODY: Final = frozenset(("SEND", "MESSAGE", "ERROR"))
# Their headers are never escaped, so that every version can read them. STOMP is another word for CONNECT.
GREETINGS: Final = frozenset(("CONNECT", "STOMP", "CONNECTED"))

_ESCAPES: Final = {
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}
_TABLES: Final = {version: str.maketrans(escapes) for version, escapes in _ESCAPES.items()}
_BACK: Final = {version: {code: plain for plain, code in escapes.items()} for version, escapes in _ESCAPES.items()}
_ESCAPED: Final = re.compile(r"\\.?", re.DOTALL)
# What would end the line, or the frame, where nothing can be escaped.
_UNSAFE: Final = re.compile("[\r\n\0]")


class StompError(MqlabError):
    """The peer does not speak STOMP, or breaks its rules or a limit; or a header cannot be written in this version."""


class StompFrame(NamedTuple):
    """Frames that were split may share their headers: they are not to be changed."""

    command: str
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


def escape(text: str, version: str) -> str:
    """A name or value of a header as it is written. 1.0 has no escapes: raises StompError where one is needed."""
    if version in _TABLES:
        return text.translate(_TABLES[version])
    if _UNSAFE.search(text):
        raise StompError("a header with a line end or NUL cannot be written without escapes")
    return text


def unescape(text: str, version: str) -> str:
    """Raises StompError for an escape that the version does not have."""
    if "\\" not in text or version not in _BACK:
        return text
    # Most that are escaped are colons; a backslash before one of them would be left over.
    if "\\" not in (quick := text.replace("\\c", ":")):
        return quick
    known = _BACK[version]

    def plain(found: re.Match[str]) -> str:
        if found[0] not in known:
            raise StompError(f"STOMP {version} has no escape {found[0]!r}")
        return known[found[0]]

    return _ESCAPED.sub(plain, text)


def encode_head(command: str, headers: Mapping[str, str], version: str) -> bytes:
    """Up to the end of the last header: an empty line and the body must follow."""
    plain = "1.0" if command in GREETINGS else version
    lines = [command]
    for name, value in headers.items():
        written = escape(name, plain)
        if not name or ":" in written:
            raise StompError(f"a header cannot have the name {name!r}")
        lines.append(f"{written}:{escape(value, plain)}")
    return "\n".join((*lines, "")).encode()


def encode(frame: StompFrame, version: str) -> bytes:
    """A whole frame; the length of the body is added to its headers unless they have it."""
    command, headers, body = frame
    head = encode_head(command, headers, version)
    if command not in WITH_BODY:
        if body:
            raise StompError(f"{command} cannot have a body")
        return head + b"\n\0"
    length = b"" if "content-length" in headers else b"content-length:%d\n" % len(body)
    return b"%b%b\n%b\0" % (head, length, body)
