"""The examples run as they are printed in the documentation."""

import subprocess
import sys
from pathlib import Path

import pytest

from .serving import Served

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, address: str) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def test_plain(served: Served) -> None:
    assert [line.strip() for line in run("plain.py", served.address)] == [
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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_run_here(path: Path) -> None:
    assert f"def test_{path.stem}(" in Path(__file__).read_text()
