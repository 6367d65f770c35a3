"""The commands over a running broker."""

import math
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trustme

from mqlab.cli.broker.common import connection as admin_connection
from mqlab.client import Connection, connect
from process_helpers import freeze

from .command import document, here
from .running_broker import TerminalCommand, broker_process


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One broker for all tests here: each has queues of its own."""
    folder = tmp_path_factory.mktemp("broker")
    with broker_process(folder, "--data", folder / "data", "--api-trace", folder / "calls") as (_, address):
        yield address


@pytest.fixture
def connection(at: str) -> Iterator[Connection]:
    with connect(at) as one:
        yield one


@pytest.fixture(autouse=True)
def here_it_is(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQLAB_BROKER", at)


def put(connection: Connection, name: str, *bodies: bytes) -> None:
    producer = connection.session().producer(name)
    for number, body in enumerate(bodies):
        producer.send(body, persistent=True, properties={"number": number})


def bodies(connection: Connection, name: str) -> list[bytes]:
    return [message.body for message in connection.session().browser(name)]


class TestMonitoring:
    def test_the_level_is_shown_and_set(self) -> None:
        assert document(here("broker", "monitoring", "--json").stdout) == {"level": "low"}
        assert document(here("broker", "monitoring", "high", "--json").stdout) == {"level": "high"}
        assert "monitoring: high" in here("broker", "monitoring").output
        assert document(here("broker", "monitoring", "low", "--json").stdout) == {"level": "low"}


class TestApiTrace:
    def test_it_is_shown_and_switched(self) -> None:
        assert document(here("broker", "api-trace", "--json").stdout) == {"on": True}
        assert "API trace: off" in here("broker", "api-trace", "off").output
        assert document(here("broker", "api-trace", "--json").stdout) == {"on": False}
        assert "API trace: on" in here("broker", "api-trace", "on").output


class TestLooking:
    def test_list(self, connection: Connection) -> None:
        put(connection, "queue:list.a", b"x", b"y")
        session = connection.session()
        session.consumer("topic:list", durable="list.sub", selector="a = 'b'")
        found = document(here("broker", "list", "--json").stdout)["destinations"]
        by_name = {one["name"]: one for one in found}
        assert by_name["queue:list.a"]["messages"] == 2
        assert by_name["subscription:list.sub"]["topic"] == "topic:list"
        result = here("broker", "list")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        (line,) = [line for line in lines if "queue:list.a" in line]
        assert line.split()[:2] == ["queue:list.a", "2"]
        (line,) = [line for line in lines if "subscription:list.sub" in line]
        assert line.rstrip().endswith("durable subscription to topic:list where a = 'b'")

    def test_show(self, connection: Connection) -> None:
        put(connection, "queue:show", b"x")
        found = document(here("broker", "show", "queue:show", "--json").stdout)
        assert (found["name"], found["messages"], found["counters"]["put"]) == ("queue:show", 1, 1)
        assert (found["policy"]["when_full"], found["episodes"]) == ("hold", [])
        said = here("broker", "show", "queue:show").stdout
        assert "policy.queue_limit" in said
        assert "8,388,608" in said
        assert "producers were never held back" in said

    def test_status(self, at: str) -> None:
        found = document(here("broker", "status", "--json").stdout)
        assert {"messages", "held_producers", "syncs", "connections"} <= found.keys()
        said = here("broker", "status", "--at", at)
        assert said.exit_code == 0
        assert "connections" in said.stdout

    def test_browse(self, connection: Connection) -> None:
        producer = connection.session().producer("queue:browse", priority=7)
        producer.send(b"red one", persistent=True, correlation_id="c-1", type="t", properties={"colour": "red"})
        producer.send(b"blue one", properties={"colour": "blue", "weight": math.nan})
        producer.send(b"\xff\x00")
        producer.flush()
        result = here("broker", "browse", "queue:browse", "--json", "--bodies")
        red, blue, raw = document(result.stdout)["messages"]
        assert (red["body"], red["correlation_id"], red["type"]) == ("red one", "c-1", "t")
        assert (red["persistent"], red["priority"], red["size"], red["redelivered"]) == (True, 7, 7, False)
        assert blue["properties"] == {"colour": "blue", "weight": "nan"}
        assert raw["body_base64"] == "/wA="
        result = here("broker", "browse", "queue:browse", "--selector", "colour = 'red'", "--json")
        (only,) = document(result.stdout)["messages"]
        assert only == {key: value for key, value in red.items() if key != "body"}
        said = here("broker", "browse", "queue:browse", "--bodies").stdout
        assert "colour='red'" in said
        assert "0xff00" in said
        assert "red one" not in here("broker", "browse", "queue:browse").stdout
        assert len(bodies(connection, "queue:browse")) == 3

    def test_browse_says_when_there_is_more(self, connection: Connection) -> None:
        put(connection, "queue:browse.many", *(b"%d" % number for number in range(10)))
        two = here("broker", "browse", "queue:browse.many", "--limit", "2", "--json", "--bodies")
        assert [one["body"] for one in document(two.stdout)["messages"]] == ["0", "1"]
        assert document(two.stdout)["more"] is True
        assert "more than these 2" in two.stderr
        for limit in ("10", "0"):
            every = here("broker", "browse", "queue:browse.many", "--limit", limit, "--json")
            assert (len(document(every.stdout)["messages"]), document(every.stdout)["more"]) == (10, False)
            assert every.stderr == ""

    def test_looking_makes_no_queue(self) -> None:
        for command in ("browse", "show"):
            result = here("broker", command, "queue:nowhere")
            assert (result.exit_code, result.stdout) == (2, "")
            assert "there is no 'queue:nowhere'" in result.stderr
        assert "nowhere" not in here("broker", "list", "--json").stdout


class TestChanging:
    def test_purge(self, connection: Connection) -> None:
        put(connection, "queue:purge", b"a", b"b", b"c")
        result = here("broker", "purge", "queue:purge", "--selector", "number = 1", "--yes", "--json")
        assert document(result.stdout) == {"messages": 1}
        assert bodies(connection, "queue:purge") == [b"a", b"c"]
        result = here("broker", "purge", "queue:purge", "--yes")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "2 messages removed from queue:purge" in result.stderr
        assert bodies(connection, "queue:purge") == []

    def test_move(self, connection: Connection) -> None:
        put(connection, "queue:move", *(b"%d" % number for number in range(6)))
        assert "2 messages moved" in here("broker", "move", "queue:move", "queue:moved", "--limit", "2").stderr
        where = ("--selector", "number > 3", "--json")
        assert document(here("broker", "move", "queue:move", "queue:moved", *where).stdout) == {"messages": 2}
        assert bodies(connection, "queue:moved") == [b"0", b"1", b"4", b"5"]
        assert bodies(connection, "queue:move") == [b"2", b"3"]

    def test_delete(self, connection: Connection) -> None:
        put(connection, "queue:delete", b"x")
        consumer = connection.session().consumer("queue:delete")
        used = here("broker", "delete", "queue:delete", "--yes")
        assert used.exit_code == 2
        assert "1 consumers" in used.stderr
        consumer.close()
        result = here("broker", "delete", "queue:delete", "--yes")
        assert (result.exit_code, result.stdout) == (0, "")
        assert here("broker", "show", "queue:delete").exit_code == 2

    @pytest.mark.parametrize("command", ["purge", "delete"])
    def test_without_a_terminal_it_needs_a_yes(self, connection: Connection, command: str) -> None:
        put(connection, f"queue:sure.{command}", b"x")
        result = here("broker", command, f"queue:sure.{command}")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "pass --yes" in result.stderr
        assert bodies(connection, f"queue:sure.{command}") == [b"x"]

    def test_at_a_terminal_it_asks(self, at: str, connection: Connection) -> None:
        put(connection, "queue:ask", b"x")
        with TerminalCommand("broker", "purge", "queue:ask", "--at", at) as command:
            command.wait_for_output("Remove all messages of queue:ask? They are lost. [y/N]")
            command.enter("n")
            assert command.end() == 130
        assert bodies(connection, "queue:ask") == [b"x"]
        with TerminalCommand("broker", "purge", "queue:ask", "--at", at) as command:
            command.wait_for_output("[y/N]")
            command.enter("y")
            assert command.end() == 0
        assert bodies(connection, "queue:ask") == []


class TestTransactions:
    def test_they_are_listed_and_decided(self, connection: Connection) -> None:
        for xid in ("x-1", "x-2"):
            session = connection.session("transacted")
            session.producer("queue:xa").send(xid.encode(), persistent=True)
            session.prepare(xid)
        found = document(here("broker", "transactions", "--json").stdout)["prepared"]
        assert [(one["xid"], one["sent"], one["received"]) for one in found] == [("x-1", 1, 0), ("x-2", 1, 0)]
        assert "x-1" in here("broker", "transactions", "list").stdout
        assert "x-1 is committed" in here("broker", "transactions", "commit", "x-1").stderr
        assert "x-2 is rolled back" in here("broker", "transactions", "rollback", "x-2").stderr
        assert bodies(connection, "queue:xa") == [b"x-1"]
        again = here("broker", "transactions", "commit", "x-1")
        assert again.exit_code == 2
        assert "no prepared transaction 'x-1'" in again.stderr
        assert "No prepared transaction waits" in here("broker", "transactions").stderr

    @pytest.mark.parametrize("arguments", [["commit"], ["rollback"], ["list", "x"], ["undo", "x"]])
    def test_what_makes_no_sense(self, arguments: list[str]) -> None:
        result = here("broker", "transactions", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")


class TestStrings:
    EVIL = "a\x1b[2J\x1b]0;title\x07\nmqlab: all is well\r\x9b31m\u202egnp\u2028z"

    def test_a_client_cannot_write_to_the_terminal(self, connection: Connection) -> None:
        producer = connection.session().producer("queue:evil")
        producer.send(self.EVIL.encode(), correlation_id=self.EVIL, type=self.EVIL, properties={"p": self.EVIL})
        producer.send(b"[bold]markup[/bold] \xff\x1b")
        producer.flush()
        result = here("broker", "browse", "queue:evil", "--bodies")
        assert result.exit_code == 0
        assert result.stdout.replace("\n", "").isprintable()
        assert len(result.stdout.splitlines()) == 3
        assert "\\x1b" in result.stdout

    def test_json_says_exactly_what_there_is_and_is_as_harmless(self, connection: Connection) -> None:
        evil = self.EVIL + "\U000e0001ü"
        producer = connection.session().producer("queue:evil.json")
        producer.send(self.EVIL.encode(), correlation_id=evil)
        producer.flush()
        result = here("broker", "browse", "queue:evil.json", "--bodies", "--json")
        (found,) = document(result.stdout)["messages"]
        assert (found["body"], found["correlation_id"]) == (self.EVIL, evil)
        assert result.stdout.replace("\n", "").isprintable()
        assert "ü" in result.stdout

    def test_what_was_asked_for_is_no_danger_either(self) -> None:
        result = here("broker", "show", f"queue:{self.EVIL}")
        assert result.exit_code == 2
        assert result.stderr.replace("\n", "").isprintable()
        assert len(result.stderr.splitlines()) == 1


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["show", "orders"], "queue:NAME"),
            (["show", "topic:t"], "subscription:NAME"),
            (["purge", "queue:none", "--yes"], "there is no 'queue:none'"),
            (["purge", "queue:errors", "--yes", "--selector", "a ="], "the selector is wrong at character"),
            (["move", "queue:errors", "topic:t"], "messages can only be moved to a queue"),
            (["move", "queue:errors", "queue:errors"], "the queue that they are on"),
            (["browse", "queue:errors", "--selector", "a LIKE 3"], "the selector is wrong at character 8"),
            (["list", "--at", "nonsense"], "'nonsense' is not an address"),
        ],
    )
    def test_refused_is_one_sentence(self, connection: Connection, arguments: list[str], words: str) -> None:
        put(connection, "queue:errors", b"x")
        result = here("broker", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1

    @pytest.mark.parametrize("arguments", [["show"], ["move", "queue:a"], ["browse", "queue:a", "--limit", "-1"]])
    def test_wrong_usage(self, arguments: list[str]) -> None:
        assert here("broker", *arguments).exit_code == 2

    def test_nobody_there(self, tmp_path: Path) -> None:
        for address in ("tcp:127.0.0.1:1", f"unix:{tmp_path}/none"):
            result = here("broker", "list", "--at", address)
            assert (result.exit_code, result.stdout) == (7, "")
            assert f"the broker at {address} is not available" in result.stderr
            assert len(result.stderr.splitlines()) == 1

    def test_one_that_does_not_answer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admin_connection, "_CONNECT_TIMEOUT_S", 0.3)
        with broker_process(tmp_path) as (command, address):
            freeze(psutil.Process(command.process.pid))
            result = here("broker", "status", "--at", address)
            assert (result.exit_code, result.stdout) == (7, "")
            assert "it does not answer in time" in result.stderr


def test_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate, key, ca, other = (tmp_path / name for name in ("certificate", "key", "ca", "other"))
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(key)
    certificate.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(ca)
    trustme.CA().cert_pem.write_to_path(other)
    options = ("--listen", "tls:127.0.0.1:0", "--tls-certificate", certificate, "--tls-key", key)
    with broker_process(tmp_path, *options) as (_, address):
        assert here("broker", "status", "--at", address, "--ca", ca).exit_code == 0
        refused: list[tuple[list[str | Path], int]] = [([], 7), (["--ca", other], 7), (["--ca", tmp_path / "none"], 2)]
        for arguments, code in refused:
            result = here("broker", "status", "--at", address, *arguments)
            assert (result.exit_code, result.stdout) == (code, ""), arguments
