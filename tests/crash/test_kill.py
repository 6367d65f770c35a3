"""kill -9 of a real broker process under persistent load: nothing confirmed is lost, nothing else appears."""

from pathlib import Path

import uvloop
from killing import torture

KILLS, MESSAGES = 30, 30_000


def test_kill_9_under_load_loses_nothing(tmp_path: Path) -> None:
    figures = uvloop.run(torture(tmp_path, KILLS, MESSAGES))
    assert figures.faults == {}, figures.examples
    assert figures.kills >= KILLS
    assert figures.confirmed >= MESSAGES
    # The kills must have hurt: sends in doubt, transactions rolled back, messages that came again with their mark.
    assert figures.unknown > 0
    assert figures.rolled_back > 0
    assert figures.duplicates > 0
