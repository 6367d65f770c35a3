"""`mqlab broker users`, and logging in with what it made."""

import subprocess
from pathlib import Path

import pytest

from mqlab.broker.security.rights import check_right
from mqlab.broker.security.users import Users
from mqlab.client import connect

from .command import PROGRAM, document, environment, here
from .running_broker import TerminalCommand, broker_process

SECRET, OTHER = "correct horse", "battery staple"


def made(file: Path, **rights: tuple[str, ...]) -> None:
    with Users.change(file) as users:
        users.add("ann", SECRET)
        for right, patterns in rights.items():
            for pattern in patterns:
                users.grant("ann", check_right(right), pattern)


def typing(line: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command with a line on its stdin."""
    command = [*PROGRAM, "broker", *map(str, arguments)]
    return subprocess.run(command, input=line, env=environment(), capture_output=True, text=True, check=False)


class TestFile:
    def test_from_nobody_to_rights_and_back(self, tmp_path: Path) -> None:
        file = tmp_path / "users.yaml"
        added = typing(f"{SECRET}\n", "users", file, "add", "ann", "--stdin")
        assert (added.returncode, added.stdout) == (0, "")
        for right, pattern in (("read", "queue:orders.#"), ("read", "topic:*"), ("admin", "all")):
            assert here("broker", "users", file, "grant", "ann", right, pattern).exit_code == 0
        listed = here("broker", "users", file, "list", "--json")
        assert document(listed.stdout)["users"] == [
            {"name": "ann", "read": ["queue:orders.#", "topic:*"], "write": [], "create": [], "admin": ["all"]}
        ]
        said = here("broker", "users", file).stdout
        assert said == here("broker", "users", file, "list").stdout
        assert "queue:orders.# topic:*" in said
        assert "scrypt" not in said
        assert here("broker", "users", file, "revoke", "ann", "read", "topic:*").exit_code == 0
        assert typing(OTHER, "users", file, "password", "ann", "--stdin").returncode == 0
        found = Users.read(file)
        assert found.login("ann", SECRET) is None
        user = found.login("ann", OTHER)
        assert user is not None
        assert (user.rights.read, user.rights.admin) == (("queue:orders.#",), ("all",))
        assert here("broker", "users", file, "remove", "ann").exit_code == 0
        assert document(here("broker", "users", file, "list", "--json").stdout) == {"users": []}

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["remove", "bob"], "no user 'bob'; there are: ann"),
            (["grant", "bob", "read", "all"], "no user 'bob'"),
            (["grant", "ann", "own", "all"], "'own' is not a right; the rights are: read, write, create, admin"),
            (["grant", "ann", "read", "orders"], "'orders' is not a pattern"),
            (["revoke", "ann", "read", "all"], "there is no right to read 'all'"),
        ],
    )
    def test_what_cannot_be_is_one_sentence_and_changes_nothing(
        self, tmp_path: Path, arguments: list[str], words: str
    ) -> None:
        file = tmp_path / "users.yaml"
        made(file)
        before = file.read_bytes()
        result = here("broker", "users", file, *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert file.read_bytes() == before

    @pytest.mark.parametrize(
        ("name", "typed", "words"),
        [("ann", SECRET, "user ann already"), ("a b", SECRET, "not a user name"), ("bob", "brief", "a password has")],
    )
    def test_a_user_that_cannot_be_added(self, tmp_path: Path, name: str, typed: str, words: str) -> None:
        file = tmp_path / "users.yaml"
        made(file)
        result = typing(typed, "users", file, "add", name, "--stdin")
        assert (result.returncode, result.stdout) == (2, "")
        assert words in result.stderr
        assert typed not in result.stderr

    def test_no_file(self, tmp_path: Path) -> None:
        for arguments in ((), ("list",), ("remove", "ann")):
            assert here("broker", "users", tmp_path / "none", *arguments).exit_code == 2
        assert here("broker", "users").exit_code == 2

    def test_without_a_terminal_no_password_is_asked_for(self, tmp_path: Path) -> None:
        result = here("broker", "users", tmp_path / "users", "add", "ann")
        assert result.exit_code == 2
        assert "--stdin" in result.stderr
        assert not (tmp_path / "users").exists()

    def test_at_a_terminal_it_is_asked_for_twice(self, tmp_path: Path) -> None:
        file = tmp_path / "users.yaml"
        with TerminalCommand("broker", "users", file, "add", "ann") as command:
            for line in (SECRET, OTHER):
                command.wait_for_output("New password: " if line is SECRET else "Again: ")
                command.enter(line)
            command.wait_for_output("New password: ", 2)
            command.enter(SECRET)
            command.wait_for_output("Again: ", 2)
            command.enter(SECRET)
            assert command.end() == 0, command.stderr
            assert SECRET.encode() not in command.stderr
        assert Users.read(file).login("ann", SECRET) is not None


def test_a_broker_with_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users.yaml"
    made(file, read=("queue:a",), write=("queue:a", "queue:b"), create=("queue:a", "queue:b"), admin=("queue:b",))
    with broker_process(tmp_path, "--users", file) as (command, address):
        monkeypatch.setenv("MQLAB_BROKER", address)
        with connect(address, user="ann", password=SECRET) as connection:
            for name in ("queue:a", "queue:b"):
                connection.session().producer(name).send(b"x")
        for arguments in ([], ["--user", "ann"]):
            nobody = here("broker", "list", *arguments)
            assert (nobody.exit_code, nobody.stdout) == (2, "")
        monkeypatch.setenv("MQLAB_PASSWORD", "wrong password")
        wrong = here("broker", "list", "--user", "ann")
        assert (wrong.exit_code, wrong.stdout) == (2, "")
        assert "wrong user or password" in wrong.stderr
        monkeypatch.setenv("MQLAB_PASSWORD", SECRET)
        monkeypatch.setenv("MQLAB_USER", "ann")
        found = document(here("broker", "list", "--json").stdout)["destinations"]
        assert [one["name"] for one in found] == ["queue:a"]
        refused = here("broker", "purge", "queue:a", "--yes")
        assert refused.exit_code == 2
        assert "ann has no right to administer queue:a" in refused.stderr
        assert "1 messages removed" in here("broker", "purge", "queue:b", "--yes").stderr
        monkeypatch.delenv("MQLAB_PASSWORD")
        with TerminalCommand("broker", "show", "queue:a", "--at", address, "--user", "ann") as asked:
            asked.wait_for_output("Password: ")
            asked.enter(SECRET)
            assert asked.end() == 0, asked.stderr
        assert SECRET not in command.stderr
