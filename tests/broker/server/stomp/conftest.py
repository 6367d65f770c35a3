from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from .stomp_clients import Process, broker

_numbers = count(1)


@pytest.fixture(scope="package")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with broker(f"--data={tmp_path_factory.mktemp('data')}") as running:
        yield running


@pytest.fixture
def name() -> str:
    """Of a destination that no other test uses."""
    return f"d{next(_numbers)}"


@pytest.fixture
def data(tmp_path: Path) -> str:
    return f"--data={tmp_path / 'data'}"
