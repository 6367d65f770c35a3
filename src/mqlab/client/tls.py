"""How a client makes sure that it talks to the broker it means."""

import ssl
from pathlib import Path


def client_context(ca: Path | None) -> ssl.SSLContext:
    """The broker's certificate must be signed by `ca`, or by an authority that this machine trusts."""
    context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
