"""Each confirmation comes after the sync of what it confirms, and the proof would notice one that does not."""

from pathlib import Path

import uvloop

from .confirming import prove, run

MESSAGES = 20_000


def test_every_confirmation_comes_after_its_sync(tmp_path: Path) -> None:
    confirmed = uvloop.run(run(tmp_path, MESSAGES))
    assert prove(tmp_path, confirmed) == {
        "confirmed": MESSAGES, "before_their_sync": 0, "not_in_the_journal": 0,
    }  # fmt: skip
    # Told a tenth of a second before, each of them would have come too early; and what was never sent is missed.
    early = {message: told - 10**8 for message, told in confirmed.items()}
    assert prove(tmp_path, early)["before_their_sync"] > MESSAGES * 0.9
    assert prove(tmp_path, {**confirmed, (99, 1): 0})["not_in_the_journal"] == 1
