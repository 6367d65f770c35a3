"""A real system that hangs: every call of a driver ends with an error in time."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from mqlab.drivers import DriverConnection, DriverError, DriverRequester, Receiver, ReceiverOptions, Responder, Sender
from mqlab.drivers.common import pending_reply
from mqlab.drivers.common.timeouts import with_timeout
from mqlab.runner.capability import driver_class, unsupported_features
from mqlab.runner.checks.feature_checks import NumberedProducer
from mqlab.systems import Running
from process_helpers import freeze

from .real_system import Real

Closing = DriverConnection | Receiver | DriverRequester | Responder | Sender

# In place of half a minute, or five.
_SHORT_TIMEOUT_S = 0.3
# What ends otherwise: a library in Java is given ten seconds to let go.
_CLOSE_SECONDS = 15.0


def check_hanging(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each verb of its driver ends, with a sentence; and what was opened can be closed."""
    up.run(_hanging(up, monkeypatch))


@contextmanager
def frozen(running: Running) -> Iterator[None]:
    """All of its processes, as they are."""
    assert running.pid is not None
    root = psutil.Process(running.pid)
    family = [root, *root.children(recursive=True)]
    freeze(*family)
    try:
        yield
    finally:
        for one in family:
            one.send_signal(signal.SIGCONT)


async def _hanging(up: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    tested, producer = up.tested, NumberedProducer()
    name = tested.new_destination(tested.domain)
    connection = await driver_class(up.system)(up.running.address, up.running.options).connect("Patient")
    receiver = await connection.receiver(name, ReceiverOptions(10))
    senders = [await connection.sender(name, persistent=persistent, transacted=False) for persistent in (True, False)]
    requests, replies = tested.new_destination("queue"), tested.new_destination("queue")
    responders, requesters = [], []
    if "request/reply" not in unsupported_features(up.system):
        responders.append(await connection.responder(requests, prefetch=1, persistent=False))
        requesters.append(await connection.requester(requests, replies, persistent=False))
    _shorten_timeouts(monkeypatch)
    with frozen(up.running):
        for sender in senders:
            await _gives_up(sender.send(producer.bodies(1), wait=True))
        for requester in requesters:
            await _gives_up(requester.request(b"body", "1-0"))
        opened: list[Closing] = [receiver, *senders, *requesters, *responders, connection]
        for one in opened:
            with suppress(DriverError):
                await asyncio.wait_for(one.close(), _CLOSE_SECONDS)


async def _gives_up(asked: Awaitable[object]) -> None:
    with pytest.raises(DriverError, match=r" within [\d.]+ s"):
        await asyncio.wait_for(asked, _CLOSE_SECONDS)


def _shorten_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in [*sys.modules.items()]:
        if name.startswith("mqlab.drivers.") and hasattr(module, "with_timeout"):
            monkeypatch.setattr(module, "with_timeout", _soon)
    monkeypatch.setattr(pending_reply, "BLOCKED_TIMEOUT_S", _SHORT_TIMEOUT_S)


async def _soon(answer: Awaitable[object], _: float = 0, failure: str = "the system did not answer") -> object:
    return await with_timeout(answer, _SHORT_TIMEOUT_S, failure)
