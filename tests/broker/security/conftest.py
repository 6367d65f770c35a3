import pytest

from mqlab.broker.security import passwords


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least cost that a file may have: what is tested is who gets in, not how long it takes."""
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
