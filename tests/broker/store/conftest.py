import pytest

from mqlab.broker.store import group_commit, journal

from .machine import Clock


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The journal's time is the test's: what happens depends on the seed and not on the machine."""
    clock = Clock()
    monkeypatch.setattr(journal, "time", clock)
    monkeypatch.setattr(group_commit, "time", clock)
    return clock
