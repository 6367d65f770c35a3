"""A broker with users, over the wire: who is not let in does nothing, and who is does what he may."""

import asyncio
from pathlib import Path

import pytest

from mqlab.broker import limits
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import RIGHTS, Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.broker.settings import Settings
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

from .raw_client import Raw, in_loop, local

ANN, BOB = "ann's own password", "bob's own password"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ann may do everything, Bob nothing but receive from what is there."""
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    monkeypatch.setattr(limits, "LOGIN_DELAY_LEAST", 0.01)
    monkeypatch.setattr(limits, "LOGIN_DELAY", 0.02)
    made, path = Users.empty(), tmp_path / "users"
    everything = Rights()
    for right in RIGHTS:
        everything = everything.granted(right, "all")
    made.add("ann", ANN, everything)
    made.add("bob", BOB, Rights().granted("read", "queue:orders.#").granted("write", "queue:orders.new"))
    made.write(path)
    return path


def hello(**said: object) -> bytes:
    return native.frame(Kind.HELLO, {"version": native.VERSION, **said})


def any_frame(kind: Kind) -> bytes:
    said = {"destination": "queue:q", "ask": "temporary", "transacted": False, "version": native.VERSION}
    return native.frame(kind, said, session=1, link=1, first=1, amount=1)


def is_untouched(broker: Broker) -> bool:
    return not broker.core.destinations.queues and not broker.core.sessions and not broker.connections


async def logged_in(address: Address, name: str, password: str) -> Raw:
    raw = await Raw.connect(address, greet=False)
    raw.write(hello(user=name, password=password))
    assert (await raw.read()).kind == Kind.HELLO
    await raw.open_session()
    return raw


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.HELLO])
@in_loop
async def test_nothing_is_done_for_who_has_not_said_who_he_is(kind: Kind, users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(any_frame(kind) + hello(user="ann", password=ANN))
        assert "HELLO" in await raw.is_ended()
        assert is_untouched(broker)


@pytest.mark.parametrize("kind", Kind)
@in_loop
async def test_nothing_is_done_while_a_password_is_looked_at(kind: Kind, users: Path) -> None:
    """Also if it is the right one: who says more before he is let in breaks the rules."""
    async with running(local(users=users)) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(hello(user="ann", password=ANN) + any_frame(kind))
        assert "HELLO" in await raw.is_ended()
        assert is_untouched(broker)


@pytest.mark.parametrize(
    "said",
    [{}, {"user": "ann"}, {"user": "ann", "password": BOB}, {"user": "Ann", "password": ANN}, {"password": ANN},
     {"user": "", "password": ""}, {"user": "ann", "password": ANN + "\0"}, {"user": "ann", "password": ""},
     {"user": ["ann"], "password": ANN}, {"user": "ann", "password": None}],
)  # fmt: skip
@in_loop
async def test_the_wrong_ones_are_told_no_more_than_that(said: dict[str, object], users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(hello(**said))
        assert await raw.is_ended() in ("wrong user or password", "this broker needs a user and a password")
        assert is_untouched(broker)


@in_loop
async def test_after_a_wrong_password_the_connection_is_of_no_more_use(users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(hello(user="ann", password=BOB))
        await raw.read_until(Kind.ERROR)
        for kind in (Kind.OPEN_SESSION, Kind.HELLO):
            raw.write(any_frame(kind))
        with pytest.raises((EOFError, OSError)):
            await raw.read()
        assert is_untouched(broker)


async def guess(address: Address, name: str) -> None:
    raw = await Raw.connect(address, greet=False)
    raw.write(hello(user=name, password="a wrong password"))
    assert await raw.is_ended() == "wrong user or password"


@pytest.mark.parametrize("name", ["ann", "bob", "unknown"])
@in_loop
async def test_who_shares_an_address_with_an_attacker_gets_in(
    name: str, users: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whosever password is guessed; over TCP and over a Unix socket."""
    monkeypatch.setattr(limits, "LOGIN_FAILURES", 4)
    monkeypatch.setattr(limits, "LOGIN_PAUSE", 0.01)
    settings = Settings(listen=("tcp:127.0.0.1:0", f"unix:{tmp_path / 'socket'}"), users=users)
    async with running(settings) as (broker, addresses):
        for address in addresses:
            await asyncio.gather(*(guess(address, name) for _ in range(12)))
            await logged_in(address, "ann", ANN)
        assert broker.guard.is_suspect("127.0.0.1", asyncio.get_running_loop().time())


@pytest.mark.parametrize("more", [-1, 0, 1])
@in_loop
async def test_guesses_of_an_address_are_checked_slowly_after_so_many(
    more: int, users: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of each pause, and nobody elsewhere waits for it."""
    monkeypatch.setattr(limits, "LOGIN_FAILURES", 4)
    monkeypatch.setattr(limits, "LOGIN_PAUSE", 1000.0)
    settings = Settings(listen=("tcp:127.0.0.1:0", f"unix:{tmp_path / 'socket'}"), users=users)
    async with running(settings) as (broker, (address, elsewhere)):
        assert broker.logins is not None
        for _ in range(4 + more):
            await guess(address, "ann")
        waiting = asyncio.ensure_future(guess(address, "ann"))
        while not (broker.logins._waiting or waiting.done()):
            await asyncio.sleep(0.001)
        await logged_in(elsewhere, "ann", ANN)
        # The first of a pause is checked at once.
        assert waiting.done() is (more <= 0)
        waiting.cancel()


@in_loop
async def test_the_answer_to_a_wrong_password_is_late_and_nobody_else_waits_for_it(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGIN_DELAY_LEAST", "LOGIN_DELAY", "HELLO_SECONDS"):
        monkeypatch.setattr(limits, name, 1000.0)
    async with running(local(users=users)) as (broker, (address,)):
        waiting = asyncio.ensure_future(guess(address, "ann"))
        while not broker.guard.failures("127.0.0.1", "ann", asyncio.get_running_loop().time()):
            await asyncio.sleep(0.001)
        await logged_in(address, "ann", ANN)
        assert not waiting.done()
        waiting.cancel()


@in_loop
async def test_a_password_that_was_right_is_not_hashed_again(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        await logged_in(address, "ann", ANN)
        assert broker.users is not None
        assert broker.users.recognize("ann", BOB) is None
        monkeypatch.setattr(Users, "login", None)
        await asyncio.gather(*(logged_in(address, "ann", ANN) for _ in range(20)))
        monkeypatch.undo()
        with Users.change(users) as changed:
            changed.set_password("ann", "another password")
        assert broker.users.recognize("ann", ANN) is None


@in_loop
async def test_no_password_of_a_client_that_is_gone_is_hashed(users: Path) -> None:
    async with running(local(users=users)) as (broker, _):
        assert broker.logins is not None
        assert await broker.logins.log_in("192.0.2.1", "ann", "a wrong password", lambda: True) is None
        assert broker.guard.failures("192.0.2.1", "ann", asyncio.get_running_loop().time()) == 0


@in_loop
async def test_the_deadline_holds_while_a_login_waits(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a greeting, with users: nobody keeps a socket for longer than it takes to say who he is."""
    monkeypatch.setattr(limits, "HELLO_SECONDS", 0.05)
    async with running(local(users=users)) as (broker, (address,)):
        raw = await Raw.connect(address, greet=False)
        raw.write(hello(user="ann", password=ANN)[:20])
        assert "not logged in" in await raw.is_ended()
        assert broker.connections == set()


@in_loop
async def test_each_right_is_asked_for(users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        ann, bob = await logged_in(address, "ann", ANN), await logged_in(address, "bob", BOB)
        await ann.open_producer("queue:orders.old")
        await ann.open_producer("queue:secret", link=2)
        for number, (kind, name, allowed) in enumerate(
            [
                (Kind.OPEN_CONSUMER, "queue:orders.old", True),
                (Kind.OPEN_PRODUCER, "queue:orders.old", False),
                (Kind.OPEN_CONSUMER, "queue:secret", False),
                # There is none yet: he may write to it, but not make it.
                (Kind.OPEN_PRODUCER, "queue:orders.new", False),
                (Kind.OPEN_CONSUMER, "topic:orders.old", False),
            ]
        ):
            bob.write(native.frame(kind, {"destination": name}, session=1, link=10 + number, amount=1))
            answer = await bob.read()
            assert (answer.kind, answer.link) == (Kind.OPENED if allowed else Kind.ERROR, 10 + number), name
        await ann.open_producer("queue:orders.new", link=3)
        await bob.open_producer("queue:orders.new", link=30)
        for ask in ("purge", "delete", "move"):
            said = {"ask": ask, "name": "queue:orders.old", "to": "queue:orders.new"}
            bob.write(native.frame(Kind.ASK, said, first=1))
            assert "no right" in (await bob.read_until(Kind.ANSWER)).json()["error"]
        bob.write(native.frame(Kind.ASK, {"ask": "list"}, first=2))
        listed = (await bob.read_until(Kind.ANSWER)).json()["destinations"]
        assert {one["name"] for one in listed} == {"queue:orders.old", "queue:orders.new"}
        assert set(broker.core.destinations.queues) == {"orders.old", "orders.new", "secret"}


@in_loop
async def test_many_logins_at_once_all_get_in(users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        raws = await asyncio.gather(*(logged_in(address, "ann", ANN) for _ in range(20)))
        assert len(broker.connections) == len(raws) == 20
