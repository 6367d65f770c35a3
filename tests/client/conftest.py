from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server.raw_client import local

from .broker_helpers import WAYS, Served, chosen, serving


@pytest.fixture(params=WAYS)
def each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test runs over TCP, and once more over bindings."""
    chosen[0] = request.param
    yield
    chosen[0] = "tcp"


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
