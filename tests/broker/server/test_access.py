"""Every command of every protocol, for users without the right, with it, and on what belongs to another user."""

import runpy
from pathlib import Path
from typing import NamedTuple

import pytest

from mqlab.broker.core.errors import CommandError
from mqlab.broker.security.commands import ADMIN_REQUESTS, FRAMES, PAGES, CheckKind
from mqlab.broker.security.rights import ANYONE
from mqlab.broker.server.access import Access, permitted_frames, permitted_pages
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http import metrics
from mqlab.broker.server.native.connection import NativeServerConnection
from mqlab.broker.server.startup import running
from mqlab.wire.native import frames as native
from mqlab.wire.native.frames import Kind

from .access_users import DENIED, READER, USERS, World, ask, logged_in, open_link, until, world
from .raw_client import Raw, in_loop, local

NOBODY = frozenset[str]()
EVERYBODY = frozenset(USERS)


class Case(NamedTuple):
    # Who may do it with these arguments.
    allowed: frozenset[str]
    arguments: dict[str, str] = {}  # noqa: RUF012 - never changed
    # The same with a name of something that does not exist: those who may not are told the same.
    missing: dict[str, str] = {}  # noqa: RUF012
    # What those who may are told all the same.
    then: str = ""
    # Who may know whether it is there, and lacks another right.
    knows: frozenset[str] = NOBODY


ORDERS, OTHERS, NOTHING = "queue:shop.orders", "queue:shop.others", "queue:shop.nothing"
ADMINS, READERS = frozenset(("admin", "all")), frozenset(("read", "all"))
ALL, WRITERS = frozenset(("all",)), frozenset(("write", "all"))
# What can be done once only.
ONCE = ("commit", "rollback", "delete", "add_channel")
BOOKS = {"name": "subscription:ann/app/books"}
NO_BOOKS = {"name": "subscription:ann/app/none"}

CASES: dict[str, list[Case]] = {
    "ping": [Case(EVERYBODY)],
    "status": [Case(EVERYBODY)],
    "temporary": [Case(EVERYBODY)],
    "delete_temporary": [
        Case(NOBODY, {"name": "TEMPORARY"}, {"name": "queue:temporary.none"}),
        Case(NOBODY, {"name": ORDERS}, {"name": NOTHING}),
    ],
    "unsubscribe": [
        Case(NOBODY, {"name": "books"}, {"name": "none"}),
        Case(NOBODY, {"name": "app/books"}, {"name": "app/none"}),
        Case(NOBODY, {"name": "ann/app/books"}, {"name": "ann/app/none"}),
    ],
    "prepare": [Case(EVERYBODY, {"xid": "two"}, then="only a transacted session")],
    # It sent to the shop's queue.
    "commit": [Case(WRITERS, {"xid": "one"}, {"xid": "none"})],
    "rollback": [Case(WRITERS, {"xid": "one"}, {"xid": "none"})],
    "prepared": [Case(EVERYBODY)],
    "list": [Case(EVERYBODY)],
    "show": [
        Case(READERS, {"name": ORDERS}, {"name": NOTHING}),
        # Who administers the topic, for the subscription is another user's.
        Case(ADMINS, BOOKS, NO_BOOKS),
        Case(ALL, {"name": "TEMPORARY"}, {"name": "queue:temporary.none"}),
    ],
    "purge": [
        Case(ADMINS, {"name": ORDERS}, {"name": NOTHING}),
        Case(ADMINS, BOOKS, NO_BOOKS),
        Case(ALL, {"name": "TEMPORARY"}, {"name": "queue:temporary.none"}),
    ],
    "move": [
        Case(ALL, {"name": ORDERS, "to": OTHERS}, {"name": NOTHING, "to": OTHERS}),
        Case(ALL, {"name": ORDERS, "to": OTHERS}, {"name": ORDERS, "to": NOTHING}),
        Case(ALL, BOOKS | {"to": OTHERS}, NO_BOOKS | {"to": OTHERS}, knows=ADMINS),
        Case(ALL, {"name": "TEMPORARY", "to": OTHERS}, {"name": "queue:temporary.none", "to": OTHERS}),
    ],
    "delete": [
        Case(ADMINS, {"name": ORDERS}, {"name": NOTHING}),
        Case(ADMINS, BOOKS, NO_BOOKS),
        Case(ALL, {"name": "TEMPORARY"}, {"name": "queue:temporary.none"}),
    ],
    "trace": [
        Case(READERS | ADMINS),
        Case(ADMINS, {"level": "low"}),
        Case(ADMINS, {"application": "a", "level": "low"}),
    ],
    "api_trace": [Case(ALL, {"on": "no"}, then="this broker has no file for an API trace")],
    "connections": [Case(ALL)],
    "monitoring": [Case(ALL), Case(ALL, {"level": "low"})],
    "channels": [Case(EVERYBODY)],
    "add_channel": [Case(ALL, {"to": "C", "address": "unix:/nowhere"}, {"to": "B", "address": "unix:/nowhere"})],
    "start_channel": [Case(ADMINS, {"to": "B"}, {"to": "C"})],
    "stop_channel": [Case(ADMINS, {"to": "B"}, {"to": "C"})],
}

OPENED: dict[str, list[Case]] = {
    "OPEN_PRODUCER": [
        Case(WRITERS, {"destination": ORDERS}),
        Case(WRITERS, {"destination": "topic:shop.news"}),
        # It does not exist: that takes the right to create it as well.
        Case(ALL, {"destination": NOTHING}),
        # A reply, by whoever was told the name.
        Case(EVERYBODY, {"destination": "TEMPORARY"}),
    ],
    "OPEN_CONSUMER": [
        Case(READERS, {"destination": ORDERS}),
        Case(READERS, {"destination": ORDERS, "browse": "yes"}),
        Case(READERS, {"destination": "topic:shop.news"}),
        Case(READERS, {"destination": "topic:shop.news", "durable": "books"}),
        Case(ALL, {"destination": NOTHING}),
        Case(ALL, {"destination": "topic:shop.#"}),
        Case(NOBODY, {"destination": "TEMPORARY"}),
        Case(NOBODY, {"destination": "TEMPORARY", "browse": "yes"}),
        Case(NOBODY, {"destination": "TEMPORARY@A"}),
    ],
}

# Those that name a session, producer or consumer by a number, which counts for its own connection only.
OF_LINKS = [name for name, needs in FRAMES.items() if needs[0].kind is CheckKind.OWN_LINK]


def filled(arguments: dict[str, str], here: World) -> dict[str, object]:
    named = {key: value.replace("TEMPORARY", here.temporary) for key, value in arguments.items()}
    return {key: True if value == "yes" else value for key, value in named.items()}


def without_names(text: str, *arguments: dict[str, object]) -> str:
    for one in arguments:
        for value in one.values():
            text = text.replace(str(value).replace("/", "%2F"), "NAME").replace(str(value), "NAME")
    return text


# No command exists beside the table, and none is tested that is not in it.


def test_every_frame_and_question_is_in_the_table() -> None:
    @in_loop
    async def run() -> None:
        async with running(local()) as (broker, _):
            connection = NativeServerConnection(broker)
            assert {Kind(kind).name for kind in connection._plain} | {"HELLO"} == {*FRAMES}
            assert {*connection._admin_requests._handlers} == {*ADMIN_REQUESTS}
            assert {*metrics.pages(broker)} == {*PAGES}

    run()


def test_every_frame_that_a_client_can_send_is_in_the_table() -> None:
    """Kinds between 10 and 29 are the clients' own; the others go both ways, or are said by the broker only."""
    of_clients = {kind.name for kind in Kind if 10 <= kind < 30} | {"HELLO", "CLOSE"}
    assert of_clients == {*FRAMES}


def test_every_command_of_the_table_is_tested() -> None:
    assert {*CASES} == {*ADMIN_REQUESTS}
    assert {*OPENED, *OF_LINKS, "HELLO", "OPEN_SESSION", "ASK"} == {*FRAMES}


def test_a_command_that_is_not_in_the_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FRAMES, "SEND")
    monkeypatch.delitem(ADMIN_REQUESTS, "ping")
    monkeypatch.delitem(PAGES, "/metrics")
    assert permitted_frames({Kind.SEND: 1, Kind.CLOSE: 2}) == {Kind.CLOSE: 2}
    assert permitted_pages({"/metrics": 1, "/status.json": 2}) == {"/status.json": 2}

    class Anyone:
        user = ANYONE

    with pytest.raises(CommandError, match="the table of rights does not contain this command"):
        Access(None, Anyone()).check_request("ping", {})  # type: ignore[arg-type] # refused before it uses them


def test_the_handlers_of_a_connection_are_those_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FRAMES, "COMMIT")

    @in_loop
    async def run() -> None:
        async with running(local()) as (_, (address,)):
            raw = await Raw.connect(address)
            await raw.open_session()
            raw.write(native.header(Kind.COMMIT, session=1))
            assert "is not one that a client sends" in await raw.is_ended()

    run()


# The whole table


@pytest.mark.parametrize("question", ADMIN_REQUESTS)
@in_loop
async def test_questions(question: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All who are refused share a world, in which nothing may change; so do the others, if it can be done again."""
    pairs = [(user, case) for case in CASES[question] for user in USERS]
    refused = [(user, case) for user, case in pairs if user not in case.allowed]
    allowed = [(user, case) for user, case in pairs if user in case.allowed]
    worlds = [refused, *([pair] for pair in allowed)] if question in ONCE else [refused, allowed]
    for number, group in enumerate(worlds):
        if group:
            folder = tmp_path / str(number)
            folder.mkdir()
            async with world(folder, monkeypatch) as here:
                raws = {user: await logged_in(here.address, user) for user in {user for user, _ in group}}
                for user, case in group:
                    await asked(here, raws[user], user, question, case)


async def asked(here: World, raw: Raw, user: str, question: str, case: Case) -> None:
    arguments = filled(case.arguments, here)
    before = state(here)
    error = (await ask(raw, question, **arguments)).get("error", "")
    if user in case.allowed:
        assert DENIED.search(error) is None, (question, user, error)
        assert error.startswith(case.then) if case.then else not error, (question, user, error)
        return
    assert error, (question, user)
    assert state(here) == before
    if case.missing and user not in case.knows:
        missing = filled(case.missing, here)
        again = str((await ask(raw, question, **missing)).get("error", ""))
        assert without_names(error, arguments) == without_names(again, missing), (question, user)


def state(here: World) -> dict[str, object]:
    """All that a command could have changed."""
    core = here.broker.core
    queues = {queue.full_name: queue.messages for queue in core.destinations.all_queues()}
    return {**queues, "prepared": len(core.two_phase_commit.waiting), "channels": len(here.broker.channels.status())}


@pytest.mark.parametrize("kind", OPENED)
@in_loop
async def test_links(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as here:
        # Those who are refused come first: others may create what does not exist.
        pairs = [(case, user) for case in OPENED[kind] for user in USERS]
        for case, user in sorted(pairs, key=lambda pair: pair[1] in pair[0].allowed):
            raw, before = await logged_in(here.address, user), state(here)
            said = filled(case.arguments, here)
            error = await open_link(raw, Kind[kind], str(said.pop("destination")), **said)
            if user in case.allowed:
                assert error == "", (kind, user, case)
            else:
                assert DENIED.search(error), (kind, user, case, error)
                assert state(here) == before
            await raw.close()
            await until(lambda: len(here.broker.connections) == 1)


@pytest.mark.parametrize("name", OF_LINKS)
@in_loop
async def test_frames_reach_nothing_of_another_connection(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as here:
        assert await open_link(here.ann, Kind.OPEN_CONSUMER, "queue:shop.orders", 60) == ""
        await here.ann.read_until(Kind.DELIVER)
        before = state(here)
        raw = await logged_in(here.address, "all")
        # The numbers are those of ann's session, producer and consumer.
        link = 1 if name in ("SEND", "REQUEST") else 60
        frame = native.frame(Kind[name], {}, session=2, link=link, first=1, amount=1)
        raw.write(frame)
        assert await raw.is_ended()
        assert state(here) == before


# Lists show what the user has the right to


@pytest.mark.parametrize("user", USERS)
@in_loop
async def test_lists(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as here:
        raw = await logged_in(here.address, user)
        own = (await ask(raw, "temporary"))["name"]
        listed = {one["name"] for one in (await ask(raw, "list"))["destinations"]}
        queues = {"queue:shop.orders", "queue:shop.others", "queue:transmit.B"}
        everything = queues | {here.subscription, here.temporary}
        expected = {"read": queues, "admin": {here.subscription}, "all": everything}.get(user, set())
        assert listed == expected | {own}
        assert len((await ask(raw, "channels"))["channels"]) == (user in READERS)
        assert len((await ask(raw, "prepared"))["prepared"]) == (user in ("write", "all"))


# What belongs to its owner is reached by its owner


@in_loop
async def test_the_owner_does_what_others_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(tmp_path, monkeypatch) as here:
        raw = await logged_in(here.address, "nobody", client_id="app")
        name = str((await ask(raw, "temporary"))["name"])
        assert await open_link(here.ann, Kind.OPEN_PRODUCER, name, 70) == ""
        here.ann.send(b"1", link=70)
        assert (await ask(raw, "show", name=name))["name"] == name
        assert await open_link(raw, Kind.OPEN_CONSUMER, name, browse=True) == ""
        assert "error" not in await ask(raw, "purge", name=name)
        assert "error" not in await ask(raw, "delete_temporary", name=name)
        assert here.broker.core.destinations.find(name) is None
        assert (await ask(here.ann, "unsubscribe", name="books")).get("error") is None
        assert here.broker.core.destinations.find(here.subscription) is None


@in_loop
async def test_who_may_read_everything_sees_no_temporary_queue_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as here:
        raw = await logged_in(here.address, READER)
        assert "error" not in await ask(raw, "show", name=ORDERS)
        assert DENIED.search(str((await ask(raw, "show", name=here.temporary)).get("error")))
        listed = {one["name"] for one in (await ask(raw, "list"))["destinations"]}
        assert ORDERS in listed
        assert here.temporary not in listed


@in_loop
async def test_a_client_id_belongs_to_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can occupy another user's client id, take its place, or end its subscriptions."""
    async with world(tmp_path, monkeypatch) as here:
        eve = await logged_in(here.address, "read", client_id="app", take_over=True)
        assert "no durable subscription" in str((await ask(eve, "unsubscribe", name="books"))["error"])
        assert here.messages(here.subscription) == 1
        assert (await ask(here.ann, "ping")) == {}
        assert await open_link(eve, Kind.OPEN_CONSUMER, "topic:shop.news", durable="books") == ""
        assert here.broker.core.destinations.find("subscription:read/app/books") is not None
        raw = await Raw.connect(here.address, greet=False)
        hello: dict[str, object] = {"version": native.VERSION, "user": "ann", "password": "the same for all"}
        raw.write(native.frame(Kind.HELLO, hello | {"client_id": "app"}))
        assert "connected already" in await raw.is_ended()


@in_loop
async def test_the_name_of_a_temporary_queue_cannot_be_guessed(tmp_path: Path) -> None:
    async with running(local(data=tmp_path)) as (broker, _):
        assert isinstance(broker, Broker)
        names = {broker.core.destinations.temporary_queue(broker).name.removeprefix("temporary.") for _ in range(50)}
        assert len({name[place] + str(place) for name in names for place in range(len(name))}) > 200
        assert {len(name) for name in names} == {32}


def test_the_table_of_the_documentation_is_fresh() -> None:
    root = Path(__file__).parents[3]
    document = (root / "docs" / "broker.md").read_text(encoding="utf-8")
    rows = runpy.run_path(str(root / "scripts" / "tables.py"))["rights_table"]().splitlines()
    assert [row for row in rows if row not in document] == [], "run .venv/bin/python scripts/tables.py"
