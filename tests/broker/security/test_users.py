import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from mqlab.broker import limits
from mqlab.broker.security.passwords import Cost
from mqlab.broker.security.rights import Rights, User
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError

ANN, BOB = "ann's own password", "bob's own password"
HASH = f"$scrypt$ln=10,r=8,p=1${'A' * 22}${'B' * 42}A"


@pytest.fixture
def users() -> Users:
    made = Users.empty()
    made.add("ann", ANN, Rights(read=("queue:orders.#", "topic:prices.*"), admin=("all",)))
    made.add("bob", BOB)
    return made


def test_who_gets_in(users: Users) -> None:
    ann = users.login("ann", ANN)
    assert ann == User("ann", Rights(read=("queue:orders.#", "topic:prices.*"), admin=("all",)))
    assert users.login("bob", BOB) == User("bob", Rights())
    for name, password in (("ann", BOB), ("ann", ""), ("eve", ANN), ("", ANN), ("Ann", ANN), ("ann\x00", ANN)):
        assert users.login(name, password) is None
    assert Users.empty().login("ann", ANN) is None


def test_a_file_gives_the_users_back(users: Users, tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    users.write(path)
    again = Users.read(path)
    assert list(again) == list(users)
    assert len(again) == 2
    assert again.login("ann", ANN) == next(iter(users))
    assert again.login("bob", ANN) is None
    Users.empty().write(path)
    assert list(Users.read(path)) == []


@pytest.mark.parametrize("name", ["no", "123", "1.5", "null", "true", "0x1f", "a@b.example", "_", "a+b-c"])
def test_names_stay_names_in_yaml(name: str, tmp_path: Path) -> None:
    made = Users.empty()
    made.add(name, ANN)
    made.write(tmp_path / "users")
    assert [user.name for user in Users.read(tmp_path / "users")] == [name]


def test_unknown_users_take_the_work_of_known_ones(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[dict[str, object]] = []

    def scrypt(data: bytes, **how: object) -> bytes:
        done.append({"size": len(data), **{key: value for key, value in how.items() if key != "salt"}})
        return b""

    monkeypatch.setattr(hashlib, "scrypt", scrypt)
    users.login("ann", "wrong password")
    users.login("eve", "wrong password")
    assert len(done) == 2
    assert done[0] == done[1]


def test_the_work_for_unknown_users_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"users: {{ann: {{password: '{HASH.replace('ln=10', 'ln=12')}'}}}}")
    assert {one.cost for one in Users.read(path)._stand_ins} == {Cost(12, 8, 1)}


def test_changes(users: Users) -> None:
    users.set_password("ann", "another password")
    assert users.login("ann", ANN) is None
    users.grant("ann", "write", "queue:x")
    users.revoke("ann", "admin", "all")
    ann = users.login("ann", "another password")
    assert ann is not None
    assert ann.rights == Rights(read=("queue:orders.#", "topic:prices.*"), write=("queue:x",))
    users.remove("ann")
    assert users.login("ann", "another password") is None
    assert [user.name for user in users] == ["bob"]


def test_rights_that_were_answered_before_do_not_stay_after_a_change(users: Users) -> None:
    before = next(iter(users))
    assert before.may("admin", "queue:a")
    users.revoke("ann", "admin", "all")
    assert not next(iter(users)).may("admin", "queue:a")


def test_changes_that_cannot_be(users: Users) -> None:
    with pytest.raises(SettingError, match="there is a user ann already"):
        users.add("ann", ANN)
    changes: tuple[Callable[[], object], ...] = (
        lambda: users.remove("eve"),
        lambda: users.set_password("eve", ANN),
        lambda: users.grant("eve", "read", "all"),
        lambda: users.revoke("eve", "read", "all"),
    )
    for change in changes:
        with pytest.raises(SettingError, match="there is no user 'eve'; there are: ann, bob"):
            change()
    with pytest.raises(SettingError, match="there are: none"):
        Users.empty().remove("eve")


@pytest.mark.parametrize(
    "name",
    [
        "", " ", "a b", "-a", ".a", "a\nb", "a\n", "a\r", "a\x00", "a\x1b[2J", "a\u202e", "\u0430nn", "ä", "a:b", "a/b",
        "../a", "\ud800", "a" * (limits.USER_NAME + 1),
    ],
)  # fmt: skip
def test_names_that_could_pass_for_something_else_are_refused(name: str, users: Users, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is not a user name; it has 1 to 64") as caught:
        users.add(name, ANN)
    assert str(caught.value).isprintable()
    assert len(users) == 2
    path = tmp_path / "users"
    path.write_text(yaml.safe_dump({"users": {name: {"password": HASH}}}))
    with pytest.raises(SettingError, match=r"is not a user name|is not YAML") as caught:
        Users.read(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("more", [-1, 0])
def test_names_up_to_the_limit(more: int, users: Users) -> None:
    name = "a" * (limits.USER_NAME + more)
    users.add(name, ANN)
    assert users.login(name, ANN) is not None


def test_a_new_user_keeps_the_rules_of_passwords(users: Users) -> None:
    changes: tuple[Callable[[], object], ...] = (
        lambda: users.add("eve", "short"),
        lambda: users.set_password("ann", "short"),
    )
    for change in changes:
        with pytest.raises(SettingError, match="8 characters") as caught:
            change()
        assert "short" not in str(caught.value)
    assert len(users) == 2
    assert users.login("ann", ANN) is not None


def test_passwords_appear_nowhere(users: Users, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        path = tmp_path / "users"
        users.write(path)
        users.login("ann", BOB)
        shown = repr(users) + repr(list(users)) + repr(vars(users)) + path.read_text() + caplog.text
    assert "own password" not in shown
    assert repr(users) == "Users(ann, bob)"
