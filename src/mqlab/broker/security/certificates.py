"""Until when a certificate is valid. Python's ssl tells that of a peer's certificate only, not of one's own."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
# Tags of DER.
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_FORMATS: Final = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


def expiry_of(certificate: Path) -> datetime | None:
    """Of the first certificate in a PEM file; None if it cannot be read, which others complain about."""
    try:
        text = certificate.read_text(encoding="ascii", errors="replace")
        pem = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
        return _expiry(ssl.PEM_cert_to_DER_cert(pem))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _expiry(certificate: bytes) -> datetime:
    """Certificate: signed part: version (optional), serial number, algorithm, issuer, validity: from, until."""
    _, whole = next(_elements(certificate))
    _, signed = next(_elements(whole))
    fields = [content for tag, content in _elements(signed) if tag != _VERSION]
    _, (tag, until) = _elements(fields[3])
    return datetime.strptime(until.decode("ascii"), _FORMATS[tag]).replace(tzinfo=UTC)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of the elements that follow one another."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            digits = length & 0x7F
            length, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        yield tag, data[at : at + length]
        at += length
