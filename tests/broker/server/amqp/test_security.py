"""Logins, rights and TLS for AMQP clients."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from mqlab.broker.security import passwords
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER
from mqlab.wire.amqp10.performatives import Detach, SaslMechanisms, symbols

from .raw_amqp import RawAmqp

PASSWORD = "a long password"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """Ann may do everything, Bob only receive from `orders`; the broker listens with TLS as well."""
    folder = tmp_path_factory.mktemp("guarded")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "own")
    users, everything = Users.empty(), Rights()
    for right in RIGHTS:
        everything = everything.granted(right, "all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
        users.add("ann", PASSWORD, everything)
        users.add("bob", PASSWORD, Rights().granted("read", "queue:orders"))
    users.write(folder / "users")
    settings = Settings(
        name="guarded-amqp", users=folder / "users", tls_certificate=folder / "own", tls_key=folder / "own",
        tls_client_ca=folder / "clients", listen=("tcp:127.0.0.1:0", "tls:127.0.0.1:0"),
    )  # fmt: skip
    clients = trustme.CA()
    clients.cert_pem.write_to_path(folder / "clients")
    for authority, name in ((clients, "ann"), (clients, "eve"), (trustme.CA(), "stranger")):
        certificate = authority.issue_cert(f"{name}@example.org", common_name=name)
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / name)
    with LocalBroker.in_thread(settings) as local:
        yield local


def plain(user: str, password: str = PASSWORD) -> bytes:
    return f"\0{user}\0{password}".encode()


def test_password_lets_a_client_in(guarded: LocalBroker) -> None:
    with RawAmqp(guarded.addresses[0].port) as client:
        assert client.log_in("PLAIN", plain("ann")) == 0
        client.open()
        client.begin()
        assert client.sender("anything").target is not None


@pytest.mark.parametrize(
    "response",
    [plain("ann", "wrong"), plain("eve"), b"", b"ann", b"\0ann", b"\xff\0\xff\0\xff", b"\0" * 9],
)
def test_wrong_password_or_response_fails(guarded: LocalBroker, response: bytes) -> None:
    with RawAmqp(guarded.addresses[0].port) as client:
        assert client.log_in("PLAIN", response) == 1
        assert client.read() is None


def test_anonymous_is_not_offered(guarded: LocalBroker) -> None:
    with RawAmqp(guarded.addresses[0].port) as client:
        client.header(SASL_HEADER)
        assert symbols(client.expect(SaslMechanisms).mechanisms) == ["PLAIN"]
    with RawAmqp(guarded.addresses[0].port) as client:
        assert client.log_in("ANONYMOUS", b"not offered") == 1


def test_client_without_sasl_is_told_to_use_it(guarded: LocalBroker) -> None:
    with RawAmqp(guarded.addresses[0].port) as client:
        assert client.header(AMQP_HEADER) == SASL_HEADER
        assert client.read_bytes(1) == b""


def test_right_that_is_missing_is_unauthorized_access(guarded: LocalBroker) -> None:
    with RawAmqp(guarded.addresses[0].port) as ann, RawAmqp(guarded.addresses[0].port) as bob:
        for client, user in ((ann, "ann"), (bob, "bob")):
            assert client.log_in("PLAIN", plain(user)) == 0
            client.open(container_id=user)
            client.begin()
        ann.sender("orders")
        assert bob.sender("orders").target is None
        assert bob.error(Detach) == "amqp:unauthorized-access"
        bob.send(Detach(0, True))
        assert bob.receiver("orders", 1).source is not None
        assert bob.receiver("others", 2).source is None
        assert bob.error(Detach) == "amqp:unauthorized-access"


def over_tls(broker: LocalBroker, client: str = "") -> RawAmqp:
    """A connection with the certificate of this client, if any."""
    folder, port = Path(str(broker.broker.settings.tls_certificate)).parent, broker.addresses[1].port
    context = ssl.create_default_context(cafile=str(folder / "ca"))
    if client:
        context.load_cert_chain(folder / client)
    sock = socket.create_connection(("127.0.0.1", port))
    return RawAmqp(port, context.wrap_socket(sock, server_hostname="127.0.0.1"))


def test_tls(guarded: LocalBroker) -> None:
    with over_tls(guarded) as client:
        assert client.log_in("PLAIN", plain("ann")) == 0
        assert client.open().container_id == "guarded-amqp"


def test_certificate_lets_its_user_in(guarded: LocalBroker) -> None:
    with over_tls(guarded, "ann") as client:
        client.header(SASL_HEADER)
        assert symbols(client.expect(SaslMechanisms).mechanisms) == ["EXTERNAL", "PLAIN"]
    for response in (b"", b"ann"):
        with over_tls(guarded, "ann") as client:
            assert client.log_in("EXTERNAL", response) == 0
            client.open()
            client.begin()
            assert client.sender("anything").target is not None


@pytest.mark.parametrize(
    ("client", "response"),
    [("", b"not offered"), ("eve", b""), ("eve", b"ann"), ("ann", b"bob"), ("ann", b"\xff")],
)
def test_certificate_lets_nobody_else_in(guarded: LocalBroker, client: str, response: bytes) -> None:
    with over_tls(guarded, client) as peer:
        assert peer.log_in("EXTERNAL", response) == 1
        assert peer.read() is None


def test_certificate_of_another_authority_is_refused(guarded: LocalBroker) -> None:
    answer = b""
    with suppress(OSError), over_tls(guarded, "stranger") as client:
        answer = client.header(SASL_HEADER)
    assert not answer


def test_proton_logs_in_by_its_certificate(guarded: LocalBroker) -> None:
    proton = pytest.importorskip("proton.utils")
    from proton import SSL, SSLDomain

    if not SSL.present():
        pytest.skip("this Proton was built without TLS")
    folder = Path(str(guarded.broker.settings.tls_certificate)).parent
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(folder / "ca"))
    # Proton does not compare IP addresses with those of a certificate.
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    domain.set_credentials(str(folder / "ann"), str(folder / "ann"), None)
    connection = proton.BlockingConnection(
        f"amqps://127.0.0.1:{guarded.addresses[1].port}", 30, ssl_domain=domain, allowed_mechs="EXTERNAL"
    )
    connection.create_sender("anything")
    connection.close()
