"""The headers of CONNECT: STOMP version, heart-beats, user and client id."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mqlab.broker import limits
from mqlab.wire.native import frames as native
from mqlab.wire.stomp.frames import VERSIONS, StompError

_LONGEST_MS: Final = 24 * 60 * 60 * 1000


class ConnectHeaders(NamedTuple):
    version: str
    # Intervals of the heart-beats that the broker sends, and that it expects; 0: none.
    send_ms: int
    expect_ms: int
    # The HELLO of the native protocol.
    hello: dict[str, object]


class UnsupportedVersionError(StompError):
    """Client and broker have no version of STOMP in common."""


def parse_connect(headers: Mapping[str, str]) -> ConnectHeaders:
    """Raises StompError."""
    version = _version(headers.get("accept-version", "1.0"))
    send_ms, expect_ms = _heart_beat(headers.get("heart-beat", "0,0"))
    if version == "1.0":
        # It has no heart-beats. A client that is told of some would miss them.
        send_ms = expect_ms = 0
    hello: dict[str, object] = {
        "version": native.VERSION,
        "client_id": headers.get("client-id", ""),
        "application": headers.get("application", ""),
    }
    if "login" in headers:
        hello |= {"user": headers["login"], "password": headers.get("passcode", "")}
    return ConnectHeaders(version, send_ms, expect_ms, hello)


def _version(accepted: str) -> str:
    offered = [version.strip() for version in accepted.split(",")]
    for version in reversed(VERSIONS):
        if version in offered:
            return version
    raise UnsupportedVersionError(f"this broker speaks STOMP {', '.join(VERSIONS)}")


def _heart_beat(header: str) -> tuple[int, int]:
    """The intervals that both sides can keep."""
    can, comma, wants = header.partition(",")
    texts = can.strip(), wants.strip()
    numbers = [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) < 10]
    if not comma or len(numbers) != 2 or max(numbers) > _LONGEST_MS:
        raise StompError(f"heart-beat: {header[:80]!r} is not two numbers of milliseconds")
    least = limits.STOMP_HEART_BEAT
    expect_ms, send_ms = (max(number, least) if number else 0 for number in numbers)
    return send_ms, expect_ms
