"""`mqlab broker channels`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlab.client import connect

from .command import document, here
from .running_broker import broker_process


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of A, which has no channel yet, and of B."""
    a, b = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    with (
        broker_process(b, "--name", "B", "--data", b / "data") as (_, there),
        broker_process(a, "--name", "A", "--data", a / "data") as (_, address),
    ):
        yield address, there


def test_channels_are_added_listed_stopped_and_started(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    at, there = pair
    monkeypatch.setenv("MQLAB_BROKER", at)
    assert "The broker has no channels." in here("broker", "channels").stderr
    (tmp_path / "secret").write_text("never asked for\n")
    added = here(
        "broker", "channels", "add", "B", there, "--batch", "7", "--retry", "1", "--login", "me", "--password-file",
        tmp_path / "secret",
    )  # fmt: skip
    assert (added.exit_code, added.stderr) == (0, "the channel to B is added\n")
    with connect(at) as connection, connect(there) as far:
        connection.session().producer("queue:q@B").send(b"1", persistent=True)
        assert far.session().consumer("queue:q").receive(30).body == b"1"
    (one,) = document(here("broker", "channels", "--json").stdout)["channels"]
    assert (one["to"], one["address"], one["state"], one["messages"]) == ("B", there, "running", 1)
    assert here("broker", "channels", "stop", "B").stderr == "the channel to B is stopped\n"
    listed = here("broker", "channels").stdout
    assert "stopped" in listed
    assert there in listed
    assert "never asked for" not in listed + here("broker", "channels", "--json").stdout
    assert document(here("broker", "channels", "start", "B", "--json").stdout) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stop",), "write: channels list"),
        (("list", "B"), "write: channels list"),
        (("add", "B"), "write: channels list"),
        (("stop", "B", "unix:x"), "write: channels list"),
        (("stop", "C"), "there is no channel to 'C'"),
        (("add", "C", "nowhere"), "'nowhere' is not an address"),
        (("add", "A", "unix:x"), "A is this broker itself"),
    ],
)
def test_what_cannot_be_done(
    words: tuple[str, ...], says: str, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQLAB_BROKER", pair[0])
    result = here("broker", "channels", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(result.stderr.split())
