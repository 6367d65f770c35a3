import asyncio
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from mqlab.wire.tls import TlsError, client_context, server_context


class Pem(NamedTuple):
    ca: Path
    certificate: Path
    key: Path


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Pem]:
    """Each call: an authority and a certificate of it for localhost."""

    def made() -> Pem:
        folder = tmp_path_factory.mktemp("tls")
        pem = Pem(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        authority.cert_pem.write_to_path(str(pem.ca))
        issued.private_key_pem.write_to_path(str(pem.key))
        for part in issued.cert_chain_pems:
            part.write_to_path(str(pem.certificate), append=True)
        return pem

    return made


@pytest.fixture(scope="module")
def pem(make: Callable[[], Pem]) -> Pem:
    return make()


async def _talk(server_side: ssl.SSLContext, client_side: ssl.SSLContext, name: str) -> tuple[bytes, str | None]:
    """What the server echoes over loopback, and the version that was agreed on."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5))
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_side)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_side, server_hostname=name)
        writer.write(b"hello")
        said = await reader.read()
        version = writer.get_extra_info("ssl_object").version()
        writer.close()
        return said, version


def talk(pem: Pem, client_side: ssl.SSLContext, name: str = "localhost") -> tuple[bytes, str | None]:
    return asyncio.run(_talk(server_context(pem.certificate, pem.key), client_side, name))


def test_both_ends_understand_each_other(pem: Pem) -> None:
    assert talk(pem, client_context(pem.ca)) == (b"hello", "TLSv1.3")


def test_version_1_2_is_served(pem: Pem) -> None:
    older = client_context(pem.ca)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    assert talk(pem, older) == (b"hello", "TLSv1.2")


def test_a_client_believes_its_authority_only(pem: Pem, make: Callable[[], Pem]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        talk(pem, client_context(make().ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(pem, client_context())


def test_a_client_wants_the_name_it_called(pem: Pem) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        talk(pem, client_context(pem.ca), name="broker.example")


def hello(version: int) -> bytes:
    """A client's first words, written out: the TLS of this machine would no longer say the older ones."""
    groups = struct.pack(">HHHH", 10, 4, 2, 0x17)
    signatures = struct.pack(">HHHHH", 13, 6, 4, 0x0403, 0x0401)
    suites = struct.pack(">HHHHHH", 10, 0xC02B, 0xC02F, 0xC009, 0xC013, 0x002F)
    body = struct.pack(">H", version) + bytes(range(32)) + b"\0" + suites + b"\1\0"
    body += struct.pack(">H", len(groups + signatures)) + groups + signatures
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(message)) + message


def answer(context: ssl.SSLContext, said: bytes) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(said)
    with pytest.raises(ssl.SSLError):
        server.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("version", [0x0301, 0x0302], ids=["1.0", "1.1"])
def test_older_versions_are_refused(version: int, pem: Pem) -> None:
    said = answer(server_context(pem.certificate, pem.key), hello(version))
    alert, fatal, protocol_version = 21, 2, 70
    assert (said[0], said[-2:]) == (alert, bytes((fatal, protocol_version)))


def test_those_words_are_understood_when_they_are_new_enough(pem: Pem) -> None:
    said = answer(server_context(pem.certificate, pem.key), hello(0x0303))
    handshake, server_hello = 22, 2
    assert (said[0], said[5], said[9:11]) == (handshake, server_hello, b"\3\3")


def test_contexts_are_strict(pem: Pem) -> None:
    for context in (server_context(pem.certificate, pem.key), client_context(pem.ca), client_context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.options & ssl.OP_NO_COMPRESSION
    for context in (client_context(pem.ca), client_context()):
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname


def test_files_that_do_not_do(pem: Pem, make: Callable[[], Pem], tmp_path: Path) -> None:
    missing, other = tmp_path / "missing.pem", make()
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_bytes(b"\xff\x00 no certificate")
    for certificate, key, says in (
        (missing, pem.key, "tls_certificate: .*missing.pem cannot be read: No such file"),
        (pem.certificate, missing, "tls_key: .*missing.pem cannot be read: No such file"),
        (tmp_path, pem.key, "tls_certificate: .* cannot be read: Is a directory"),
        (nonsense, pem.key, "nonsense.pem and .*key.pem must hold a certificate and its private key in PEM"),
        (pem.certificate, nonsense, "certificate.pem and .*nonsense.pem must hold"),
        (pem.key, pem.certificate, "must hold a certificate and its private key"),
        (pem.certificate, other.key, "tls_key: .*key.pem is not the key of the certificate in .*certificate.pem"),
    ):
        with pytest.raises(TlsError, match=says):
            server_context(certificate, key)
    with pytest.raises(TlsError, match=r"ca: .*missing.pem cannot be read"):
        client_context(missing)
    with pytest.raises(TlsError, match=r"ca: .*nonsense.pem must hold certificates in PEM"):
        client_context(nonsense)


def test_an_encrypted_key_is_not_asked_about(pem: Pem, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(pem.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsError, match=r"tls_key: .*locked.pem is encrypted"):
        server_context(pem.certificate, locked)
