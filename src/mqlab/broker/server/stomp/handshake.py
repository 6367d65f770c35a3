"""CONNECT: which version is spoken, how often both sides show that they are alive, and who the client is."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mqlab.broker import limits
from mqlab.wire import native
from mqlab.wire.stomp import VERSIONS, StompError

_LONGEST: Final = 24 * 60 * 60 * 1000


class ConnectHeaders(NamedTuple):
    version: str
    # Milliseconds between heart-beats that the broker sends, and that it expects; 0: none.
    beat: int
    expect: int
    # For the broker.
    hello: dict[str, Any]


class UnsupportedVersionError(StompError):
    """The client speaks no version that the broker does."""


def parse_connect(headers: Mapping[str, str]) -> ConnectHeaders:
    """Raises StompError."""
    beat, expect = _heart_beat(headers.get("heart-beat", "0,0"))
    hello: dict[str, Any] = {
        "version": native.VERSION,
        "client_id": headers.get("client-id", ""),
        "application": headers.get("application", ""),
    }
    if "login" in headers:
        hello |= {"user": headers["login"], "password": headers.get("passcode", "")}
    return ConnectHeaders(_version(headers.get("accept-version", "1.0")), beat, expect, hello)


def _version(accepted: str) -> str:
    offered = [one.strip() for one in accepted.split(",")]
    for version in reversed(VERSIONS):
        if version in offered:
            return version
    raise UnsupportedVersionError(f"this broker speaks STOMP {', '.join(VERSIONS)}")


def _heart_beat(text: str) -> tuple[int, int]:
    """What the client can do and wants, made to fit what the broker can do."""
    can, comma, wants = text.partition(",")
    numbers = [int(one) for one in (can.strip(), wants.strip()) if one.isascii() and one.isdigit() and len(one) < 10]
    if not comma or len(numbers) != 2 or max(numbers) > _LONGEST:
        raise StompError(f"heart-beat: {text[:80]!r} is not two numbers of milliseconds")
    least = limits.STOMP_HEART_BEAT
    expect, beat = (max(one, least) if one else 0 for one in numbers)
    return beat, expect
