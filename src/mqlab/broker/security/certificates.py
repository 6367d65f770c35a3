"""When a certificate expires. Python's `ssl` knows that of the peer's certificate only."""

from datetime import datetime
from pathlib import Path

from cryptography import x509


def expiry_of(certificate: Path) -> datetime | None:
    """The expiry of the first certificate in a PEM file; None if the file cannot be read."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None
