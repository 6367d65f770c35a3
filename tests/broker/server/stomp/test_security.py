"""Who may come in and what he may do, with STOMP as with the broker's own protocol; and TLS."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import stomp
import trustme

from mqlab.broker.security import passwords
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users

from .stomp_clients import VERSIONS, WEBSOCKET, Client, Process, Raw, broker

PASSWORD = "ann's own password"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Process]:
    """Ann may do everything, Bob nothing but receive from what is there; and it listens with TLS as well."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca")
    own = authority.issue_cert("127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "own")
    users, everything = Users.empty(), Rights()
    for right in RIGHTS:
        everything = everything.granted(right, "all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
        users.add("ann", PASSWORD, everything)
        users.add("bob", PASSWORD, Rights().granted("read", "queue:orders.#"))
    users.write(folder / "users")
    options = (f"--data={folder / 'data'}", f"--users={folder / 'users'}", f"--tls-certificate={folder / 'own'}",
               f"--tls-key={folder / 'own'}")  # fmt: skip
    with broker(*options, listen=("tcp:127.0.0.1:0", "tls:127.0.0.1:0")) as process:
        yield process


@pytest.mark.parametrize("version", ["1.2", WEBSOCKET])
def test_who_has_a_password_comes_in(guarded: Process, version: str, name: str) -> None:
    with Client(guarded.port, version, login="ann", passcode=PASSWORD) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", b"x")
        assert client.bodies(1) == [b"x"]


@pytest.mark.parametrize(
    "said", [{}, {"login": "ann"}, {"login": "ann", "passcode": "wrong one"}, {"login": "eve", "passcode": PASSWORD}]
)
def test_nobody_else_does(guarded: Process, said: dict[str, str]) -> None:
    with Raw(guarded.port, greet=False) as raw:
        raw.write("CONNECT", **{"accept-version": "1.2", **said})
        # Nothing that follows is done, or said anything of.
        raw.write("SEND", b"x", destination="/queue/sneaked-in", receipt="r")
        error = raw.is_ended()
        assert "user" in error.headers["message"]
        assert "receipt-id" not in error.headers
    with Client(guarded.port, login="ann", passcode=PASSWORD) as client:
        client.subscribe("/queue/sneaked-in")
        assert client.nothing()


@pytest.mark.parametrize("version", ["1.2", WEBSOCKET])
def test_stomp_py_learns_that_it_was_not_let_in(guarded: Process, version: str) -> None:
    with pytest.raises(stomp.exception.ConnectFailedException):
        Client(guarded.port, version)


def test_what_follows_a_good_password_is_done_after_it(guarded: Process, name: str) -> None:
    with Raw(guarded.port, greet=False) as raw:
        raw.write("CONNECT", **{"accept-version": "1.2", "login": "ann", "passcode": PASSWORD})
        raw.write("SEND", b"x" * 10_000, destination=f"/queue/{name}", receipt="r")
        assert [raw.read().command, raw.read().command] == ["CONNECTED", "RECEIPT"]


def test_rights_are_those_of_the_user(guarded: Process) -> None:
    with Client(guarded.port, login="ann", passcode=PASSWORD) as ann:
        ann.send("/queue/orders.new", b"order")
    with Client(guarded.port, login="bob", passcode=PASSWORD) as bob:
        bob.subscribe("/queue/orders.new")
        assert bob.bodies(1) == [b"order"]
        bob.c.send("/queue/orders.new", b"mine", receipt="r")
        assert "bob has no right to send to queue:orders.new" in bob.error()
    with Client(guarded.port, login="bob", passcode=PASSWORD) as bob:
        bob.c.subscribe("/topic/secrets", "s")
        assert "bob has no right to receive from topic:secrets" in bob.error()


@pytest.mark.parametrize("version", [*VERSIONS, WEBSOCKET])
def test_over_tls(guarded: Process, folder: Path, version: str, name: str) -> None:
    port = guarded.ports[1]
    with Client(port, version, login="ann", passcode=PASSWORD, ca=folder / "ca") as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", bytes(300_000))
        assert client.bodies(1) == [bytes(300_000)]


def test_over_tls_an_error_is_said_too(guarded: Process, folder: Path) -> None:
    """Without WebSocket, stomp.py does not notice the end of a connection with TLS."""
    with Client(guarded.ports[1], WEBSOCKET, login="ann", passcode=PASSWORD, ca=folder / "ca") as client:
        client.c.send("nowhere", b"x")
        assert "'nowhere' is not a destination" in client.error()


def test_passwords_are_in_no_log_and_lines_cannot_be_forged(folder: Path) -> None:
    process = Process(f"--users={folder / 'users'}")
    try:
        for said in (
            b"CONNECT\nlogin:ann\npasscode:not hers but secret\n\n\0",
            b"CONNECT\nlogin:ann\npasscode secret\n\n\0",
            b"CONNECT\naccept-version:1.2\nlogin:ann\npasscode:secret\nclient-id:a\rforged line\n\n\0",
        ):
            with Raw(process.port, greet=False) as raw:
                raw.bytes(said)
                assert "secret" not in raw.is_ended().body.decode()
    finally:
        log = process.stop()
    assert "secret" not in log
    # The first says that hashes that cost little, as those of a test, are weak.
    first, *lines = log.splitlines()
    assert "password hashes" in first
    assert log.count("connection ended") == len(lines) == 3
