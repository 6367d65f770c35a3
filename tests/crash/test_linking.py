"""Channels between two real brokers, with links that are cut and brokers that are killed: each message arrives once."""

from pathlib import Path

import uvloop
from linking import torture

CUTS, KILLS, MESSAGES = 6, 1, 2000


def test_every_message_arrives_once(tmp_path: Path) -> None:
    figures = uvloop.run(torture(tmp_path, CUTS, KILLS, MESSAGES))
    assert figures.faults == {}, figures.examples
    assert figures.cuts >= CUTS
    assert figures.kills == KILLS
    assert figures.confirmed >= MESSAGES
    assert figures.light > 0
