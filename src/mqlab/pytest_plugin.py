"""The pytest plugin: the fixture `mqlab_broker`. Nothing of the broker is imported before a test uses it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mqlab.testing.fixture_broker import FixtureBroker

_OPTION = "--mqlab-broker"
_PROCESS = "process"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mqlab", "the broker of the fixture mqlab_broker")
    group.addoption(
        _OPTION, choices=("in-process", _PROCESS), default="in-process",
        help="where it runs, unless the marker mqlab_broker says so: in a thread of this process (the default), or in"
        " a process of its own",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "mqlab_broker(process=False, **settings): where the broker of the fixture mqlab_broker runs, and its settings",
    )


@pytest.fixture
def mqlab_broker(request: pytest.FixtureRequest) -> "Iterator[FixtureBroker]":
    """A broker for this test: all protocols on a free port of this machine, and no messages of another test."""
    from mqlab.testing.running import running_broker

    marker = request.node.get_closest_marker("mqlab_broker")
    settings = {"process": request.config.getoption(_OPTION) == _PROCESS, **(marker.kwargs if marker else {})}
    with running_broker(**settings) as broker:
        yield broker
