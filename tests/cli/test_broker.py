"""`mqlab broker`: the embedded broker as a server of its own."""

import signal
import urllib.request
from pathlib import Path

import pytest

from mqlab.client import connect

from .command import PROGRAM, Background, here
from .running_broker import broker_process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_stops_in_good_order(tmp_path: Path, number: int) -> None:
    options = ("--data", tmp_path / "data", "--listen", "tcp:127.0.0.1:0", "--listen", f"unix:{tmp_path}/socket")
    with Background(tmp_path, *PROGRAM, "broker", *options) as command:
        assert command.process.stdout is not None
        lines = [command.process.stdout.readline().decode().strip() for _ in range(2)]
        addresses = [line.removeprefix("listening on ") for line in lines]
        assert addresses[0].startswith("tcp:127.0.0.1:")
        assert addresses[1] == f"unix:{tmp_path}/socket"
        with connect(addresses[0]) as sending, connect(addresses[1]) as receiving:
            sending.session().producer("queue:q").send(b"over both", persistent=True)
            assert next(iter(receiving.session().consumer("queue:q"))).body == b"over both"
        command.interrupt(number)
        code, out = command.end()
        assert (code, out) == (0, ""), command.stderr
        assert "Traceback" not in command.stderr
    assert not (tmp_path / "socket").exists()


def test_a_folder_has_one_broker(tmp_path: Path) -> None:
    arguments = ("broker", "--data", tmp_path / "data", "--listen", "tcp:127.0.0.1:0")
    with Background(tmp_path, *PROGRAM, *arguments) as command:
        assert command.process.stdout is not None
        assert command.process.stdout.readline()
        result = here(*arguments)
        assert result.exit_code == 7
        assert "data" in result.stderr
        assert "Traceback" not in result.stderr


def test_its_counters_are_served(tmp_path: Path) -> None:
    with broker_process(tmp_path, "--metrics", "127.0.0.1:0") as (command, address):
        command.wait_for_output("counters at ")
        page = command.stderr.partition("counters at ")[2].split()[0]
        with connect(address) as connection:
            connection.session().producer("queue:q").send(b"x")
            connection.status()
            with urllib.request.urlopen(page, timeout=240) as answer:
                assert b'mqlab_messages{destination="queue:q"} 1.0' in answer.read()
        command.interrupt(signal.SIGTERM)
        assert command.end()[0] == 0, command.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "nonsense"], "nonsense"),
        (["--listen", "tcp:0.0.0.0:0"], "--open-to-network"),
        (["--listen", "tcp:127.0.0.1:0", "--sync", "maybe"], "'maybe' is none of on, off"),
        (["--listen", "tcp:127.0.0.1:0", "--queue-limit", "0"], "queue_limit"),
        (["--queue-limit", "much"], "--queue-limit"),
        (["--preallocate=perhaps"], "--preallocate"),
        (["--when-full", "wait"], "when_full: 'wait' is none of hold, refuse, drop-oldest"),
        (["--listen", "tcp:127.0.0.1:0", "--metrics", "0.0.0.0:0"], "metrics: 0.0.0.0:0 can be reached"),
        (["--users", "none-such"], "none-such"),
    ],
)
def test_bad_input_is_one_sentence(options: list[str], words: str) -> None:
    result = here("broker", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
