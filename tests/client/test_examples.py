"""The examples run as they are printed in the documentation."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mqlab.client import connect

from .broker_helpers import Served

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, address: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_blocking(served: Served) -> None:
    assert [line.strip() for line in run("blocking.py", served.address)] == [
        "received first order",
        "received second order",
        "rolled back: the order comes again, the answer was never sent",
        "committed third order redelivered",
        "received answer to third order",
    ]


def test_batch(forgetful: Served) -> None:
    end, rate = run("batch.py", forgetful.address)
    assert end == "and then that is all"
    assert rate.startswith("received 819200 messages, ")


def messages_left(address: str) -> int:
    with connect(address) as connection:
        return int(connection.status()["messages"])


@pytest.mark.parametrize("name", ["blocking.py", "batch.py"])
def test_an_example_leaves_nothing_behind(served: Served, name: str) -> None:
    for _ in range(2):
        assert run(name, served.address)
        assert messages_left(served.address) == 0


def test_the_snippets_of_the_readme_run_and_leave_nothing_behind(served: Served, tmp_path: Path) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (EXAMPLES.parent / "README.md").read_text(), re.DOTALL)
    assert snippets
    for number, snippet in enumerate(snippets):
        assert "tcp:127.0.0.1:7766" in snippet
        path = tmp_path / f"{number}.py"
        path.write_text(snippet.replace("tcp:127.0.0.1:7766", served.address))
        for _ in range(2):
            assert run(str(path), served.address) == ["b'one' {'colour': 'red'}"]
            assert messages_left(served.address) == 0


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_run_here(path: Path) -> None:
    assert f"def test_{path.stem}(" in Path(__file__).read_text()
