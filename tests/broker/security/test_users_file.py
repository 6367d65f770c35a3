import logging
from pathlib import Path

import pytest

from mqlab.broker.security import passwords
from mqlab.broker.security.users import Users
from mqlab.broker.security.users_file import UsersFile
from mqlab.broker.settings import SettingError

PASSWORD = "a long password"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    with Users.change(path) as users:
        users.add("ann", PASSWORD)
    return path


def test_changes_count_from_the_next_login_on(path: Path) -> None:
    file = UsersFile(path)
    assert file.login("bob", PASSWORD) is None
    with Users.change(path) as users:
        users.add("bob", PASSWORD)
    assert file.login("bob", PASSWORD) is not None
    with Users.change(path) as users:
        users.remove("ann")
    assert file.login("ann", PASSWORD) is None


def test_it_is_read_only_when_it_changed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = UsersFile(path)
    monkeypatch.setattr(Users, "read", None)
    assert file.login("ann", PASSWORD) is not None


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_a_file_that_became_unreadable_is_told_once_and_locks_nobody_out(
    how: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = UsersFile(path)
    if how == "gone":
        path.unlink()
    else:
        path.write_text('users: {"bob\\nWARNING forged": x}')
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert file.login("ann", PASSWORD) is not None
    (said,) = caplog.messages
    assert said.isprintable()
    assert said.endswith("; the broker keeps the users that it has")
    mended = Users.empty()
    mended.add("bob", PASSWORD)
    mended.write(path)
    assert file.login("ann", PASSWORD) is None
    assert file.login("bob", PASSWORD) is not None


def test_a_broker_does_not_begin_without_its_users(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        UsersFile(tmp_path / "users")


def test_weak_hashes_are_reported_and_still_let_their_users_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users"
    with Users.change(path) as users:
        users.add("old", "an old password")
    monkeypatch.setattr(passwords, "COST", passwords.Cost(11, 8, 1))
    with Users.change(path) as users:
        users.add("new", "a new password")
    found = UsersFile(path)
    (line,) = caplog.messages
    assert "password hashes of old are weaker" in line
    assert found.users.weak == ["old"]
    assert found.login("old", "an old password") is not None
    assert found.recognize("old", "an old password") is not None
    assert found.recognize("old", "a new password") is None
    assert found.recognize("new", "a new password") is None
