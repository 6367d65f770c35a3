"""Files of users: how they are changed, and what is none."""

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.broker.security.passwords import PasswordHash
from mqlab.broker.security.rights import RIGHTS, Rights, User
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError

ANN = "ann's own password"
HASH = f"$scrypt$ln=10,r=8,p=1${'A' * 22}${'B' * 42}A"


@pytest.fixture
def users() -> Users:
    made = Users.empty()
    made.add("ann", ANN)
    made.add("bob", ANN)
    return made


def test_the_file_is_its_owners_alone_and_no_other_is_left(users: Users, tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("users: {}")
    path.chmod(0o644)
    before = os.umask(0o000)
    try:
        users.write(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


def test_a_link_is_followed(users: Users, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "users", tmp_path / "real" / "users"
    link.symlink_to(real)
    users.write(link)
    assert link.is_symlink()
    assert len(Users.read(real)) == 2


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_a_disk_that_fails_leaves_the_old_file(
    call: str, users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "users"
    Users.empty().write(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path if call == "replace" else os, call, fail)
    with pytest.raises(SettingError, match="users: cannot be written: No space left on device"):
        users.write(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


def test_the_new_file_is_synced_before_it_takes_the_name(
    users: Users, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def traced_fsync(file: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(file).st_mode) else f"sync {os.fstat(file).st_size > 0}")
        fsync(file)

    def traced_replace(path: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(Path, "replace", traced_replace)
    users.write(tmp_path / "users")
    assert calls == ["sync True", "rename", "sync folder"]


def test_changes_at_the_same_time_all_count(tmp_path: Path) -> None:
    path = tmp_path / "users"

    def add(name: str) -> None:
        with Users.change(path) as users:
            users.add(name, ANN)

    threads = [Thread(target=add, args=(f"user{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Users.read(path)) == 8


def test_a_folder_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere/users: there is no folder for it"):
        Users.change(tmp_path / "nowhere" / "users").__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_change_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users"

    def add_two() -> None:
        with Users.change(path) as users:
            users.add("ann", ANN)
            users.add("bob", "short")

    with pytest.raises(SettingError, match="8 characters"):
        add_two()
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "users: is empty"),
        ("ann", "users:1: must have keys: users"),
        ("users:\n  ann: hunter2\n", "users:2: users.ann: must have keys: password, rights"),
        ("users: [ann]\n", "users:1: users: must have keys with values"),
        ("user: {}\n", "users:1: there is no 'user'; there are: users"),
        ("users:\n  ann:\n    rights: {}\n", "users:2: users.ann: needs a password"),
        ("users:\n  ann:\n    password: hunter2\n", "users:3: users.ann.password: is not a password hash; `mqlab"),
        ("users:\n  ann:\n    password: [hunter2]\n", "users:3: users.ann.password: must be a single value"),
        ("users:\n  ann:\n    password: *hunter2\n", "users:3: anchors are not accepted"),
        ("users:\n  ann:\n    password: &hunter2 x\n", "users:3: anchors are not accepted"),
        ("users:\n  ann:\n    password: !hunter2!x x\n", "users:3: is not YAML: found undefined tag handle"),
        ("users:\n  ann:\n    password: 'hunter2\n", "users:4: is not YAML"),
        (f"users:\n  ann:\n    password: {HASH}\n    secret: x\n",
         "users:4: users.ann: there is no 'secret'; there are: password, rights"),
        (f"users:\n  ann:\n    password: {HASH}\n    rights: {{\n      reed: []}}\n",
         "users:5: users.ann.rights: there is no 'reed'; there are: read, write, create, admin"),
        (f"users:\n  ann:\n    password: {HASH}\n    rights: {{read: all}}\n",
         r"users:4: users.ann.rights.read: must be a list: \[one, two\]"),
        (f"users:\n  ann:\n    password: {HASH}\n    rights:\n      read:\n      - all\n      - orders\n",
         "users:7: users.ann.rights.read: 'orders' is not a pattern; write queue:NAME"),
        (f"users:\n  ann: {{password: '{HASH}'}}\n  ann: {{password: '{HASH}'}}\n",
         "users:2: users.ann: appears here and again in line 3; write it once"),
    ],
)  # fmt: skip
def test_files_that_are_wrong(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(SettingError, match=says) as caught:
        Users.read(path)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="users: cannot be read: No such file"):
        Users.read(tmp_path / "users")
    with pytest.raises(SettingError, match="cannot be read: Is a directory"):
        Users.read(tmp_path)


# Anything at all

VALID = f"users:\n  ann:\n    password: {HASH}\n    rights: {{read: [queue:a.#, all], write: [topic:*]}}\n".encode()
words = st.sampled_from(["users", "ann", "password", "rights", *RIGHTS, "all", "queue:a.#", HASH, "\n", "a\x00b"])
trees = st.recursive(
    words | st.text(max_size=5) | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    begin = draw(st.integers(0, len(VALID)))
    end = draw(st.integers(begin, min(len(VALID), begin + 8)))
    return VALID[:begin] + draw(st.binary(max_size=8)) + VALID[end:]


def documents() -> st.SearchStrategy[bytes]:
    written = trees.map(lambda tree: yaml.safe_dump(tree, allow_unicode=False).encode())
    users = trees.map(lambda tree: yaml.safe_dump({"users": {"ann": tree}}).encode())
    return st.binary(max_size=200) | damaged() | written | users


@settings(max_examples=300, deadline=None)
@given(documents())
def test_any_bytes_are_users_or_the_one_error(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "users"
        path.write_bytes(data)
        said, read = "", Users.empty()
        try:
            read = Users.read(path)
        except SettingError as error:
            said = str(error)
        assert said.isprintable()
        read.write(path)
        assert list(Users.read(path)) == list(read)


def test_the_valid_one_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(VALID)
    assert list(Users.read(path)) == [User("ann", Rights(read=("queue:a.#", "all"), write=("topic:*",)))]
    assert PasswordHash.parse(HASH).encode() == HASH
