"""A broker with a data folder for the tests of AMQP clients."""

from collections.abc import Iterator
from itertools import count

import pytest

from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings

_names = count(1)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    settings = Settings(
        name=f"amqp-{next(_names)}", data=tmp_path_factory.mktemp("data"), listen=("tcp:127.0.0.1:0",)
    )  # fmt: skip
    with LocalBroker.in_thread(settings) as local:
        yield local


@pytest.fixture(scope="module")
def port(local: LocalBroker) -> int:
    return local.addresses[0].port


@pytest.fixture
def queue() -> str:
    """A name that no other test uses."""
    return f"q{next(_names)}"
