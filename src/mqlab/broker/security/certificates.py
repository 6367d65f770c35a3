"""Until when a certificate is valid. Python's ssl tells that of a peer's certificate only, not of one's own."""

from datetime import datetime
from pathlib import Path

from cryptography import x509


def expiry_of(certificate: Path) -> datetime | None:
    """Of the first certificate in a PEM file; None if it cannot be read, which others complain about."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None
