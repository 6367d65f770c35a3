"""`mqlab broker check`: real data folders, whole and not."""

import shutil
from pathlib import Path

import pytest

from mqlab.client import connect

from .command import document, here
from .running_broker import broker_process


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a broker that was killed with ten messages in it."""
    folder = tmp_path_factory.mktemp("left")
    with broker_process(folder, "--data", folder / "data") as (command, address):
        with connect(address) as connection:
            session = connection.session()
            producer = session.producer("queue:kept")
            for number in range(10):
                producer.send(b"message %d" % number, persistent=True)
            transaction = connection.session("transacted")
            transaction.producer("queue:kept").send(b"perhaps", persistent=True)
            transaction.prepare("undecided")
        running = here("broker", "check", folder / "data")
        assert running.exit_code == 7
        assert "stop the broker first" in running.stderr
        command.process.kill()
        command.process.wait()
    return folder / "data"


@pytest.fixture
def data(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left, tmp_path / "data"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def journal(folder: Path) -> Path:
    """The last file of it."""
    found = document(here("broker", "check", folder, "--json").stdout)
    return Path(found["files"][-1]["path"])


def test_a_sound_folder(data: Path) -> None:
    before = contents(data)
    result = here("broker", "check", data, "--json")
    assert result.exit_code == 0, result.stderr
    found = document(result.stdout)
    assert (found["verdict"], found["prepared"], found["stopped_in_order"]) == ("sound", ["undecided"], False)
    (queue,) = found["queues"]
    assert (queue["name"], queue["messages"]) == ("kept", 10)
    said = here("broker", "check", data)
    assert said.exit_code == 0
    assert "whole" in said.stdout
    assert "is sound" in said.stderr
    assert "undecided" in said.stderr
    assert contents(data) == before


def test_a_torn_tail_is_no_damage(data: Path) -> None:
    file = journal(data)
    # A power failure leaves the length that was reserved; a shorter file is damage.
    whole = file.read_bytes()
    file.write_bytes(whole.rstrip(b"\x00")[:-3].ljust(len(whole), b"\x00"))
    result = here("broker", "check", data)
    assert result.exit_code == 0
    said = " ".join(result.stderr.split())
    assert "torn tail" in said
    # Noise in place of confirmed records looks the same.
    assert "no record proves that they had been confirmed" in said
    assert "unconfirmed" not in said
    assert document(here("broker", "check", data, "--json").stdout)["verdict"] == "torn tail"


def test_damage_is_told_with_its_place(data: Path) -> None:
    file = journal(data)
    written = bytearray(file.read_bytes())
    written[written.index(b"message 2")] ^= 1
    file.write_bytes(written)
    before = contents(data)
    result = here("broker", "check", data)
    assert result.exit_code == 3
    assert file.name in result.stderr
    assert "at byte" in result.stderr
    again = here("broker", "check", data, "--json")
    assert again.exit_code == 3
    assert document(again.stdout)["verdict"] == "damaged"
    assert contents(data) == before


def test_no_journal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("none", "file", "empty"):
        result = here("broker", "check", tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert name in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert [*(tmp_path / "empty").iterdir()] == []
