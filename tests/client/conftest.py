from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server.talking import local

from .serving import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A broker that keeps persistent messages."""
    with serving(local(data=tmp_path / "data")) as one:
        yield one


@pytest.fixture
def forgetful() -> Iterator[Served]:
    """A broker without a data folder."""
    with serving(local()) as one:
        yield one
