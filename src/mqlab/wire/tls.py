"""TLS contexts for broker and client: version 1.2 or later, with the default ciphers of Python and OpenSSL."""

import ssl
from pathlib import Path
from typing import NoReturn

from mqlab.errors import MqlabError
from mqlab.regular_file import open_regular


class TlsError(MqlabError, ValueError):
    """A certificate file or key file cannot be used."""


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """`certificate`: a chain in PEM, the broker's own first. Raises TlsError, which names the invalid file.

    `client_ca`: authorities of client certificates (PEM). A client may have none; one that does not verify is refused.
    """
    _check_readable("tls_certificate", certificate)
    _check_readable("tls_key", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    # Renegotiation costs the broker far more than the client that asks for it.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key, password=lambda: _encrypted(key))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"tls_key: {key} is not the key of the certificate in {certificate}") from None
        raise TlsError(f"tls_certificate, tls_key: {certificate} and {key} must hold a certificate and its private "
                           f"key in PEM ({_reason(error)})") from None  # fmt: skip
    if client_ca is not None:
        _load_authorities(context, "tls_client_ca", client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(ca: Path | None = None) -> ssl.SSLContext:
    """Verifies the broker's certificate and name against `ca` (certificates in PEM) or the system's trust store."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if ca is None:
        context.load_default_certs()
        return context
    _load_authorities(context, "ca", ca)
    return context


def _load_authorities(context: ssl.SSLContext, option: str, ca: Path) -> None:
    _check_readable(option, ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise TlsError(f"{option}: {ca} must hold certificates in PEM ({_reason(error)})") from None


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The length of compressed data leaks secrets.
    context.options |= ssl.OP_NO_COMPRESSION


def _check_readable(option: str, path: Path) -> None:
    try:
        open_regular(path).close()
    except OSError as error:
        raise TlsError(f"{option}: {path} cannot be read: {error.strerror}") from None


def _encrypted(key: Path) -> NoReturn:
    """Without this, OpenSSL asks for a passphrase on the terminal."""
    raise TlsError(f"tls_key: {key} is encrypted; the broker cannot ask for its passphrase: give it a plain key")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "no reason given").replace("_", " ").lower()
