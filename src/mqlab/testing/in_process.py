"""The broker of a test in a thread of this process."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.testing.observed_broker import ObservedBroker
from mqlab.testing.sent import SentMessage

T = TypeVar("T")


class BrokerControl(Protocol):
    """The requests of a test to its broker, in this process or in another."""

    @property
    def port(self) -> int: ...

    def advance(self, step_ms: int) -> int: ...

    def now_ms(self) -> int: ...

    def sent(self) -> list[SentMessage]: ...

    def wait_for_sent(self, destination: str, count: int, timeout_s: float) -> list[SentMessage]: ...

    def forget_sent(self) -> None: ...


class InProcessControl:
    def __init__(self, local: LocalBroker) -> None:
        assert isinstance(local.broker, ObservedBroker)
        self._broker, self._loop = local.broker, local.loop
        self.port = local.addresses[0].port

    def advance(self, step_ms: int) -> int:
        return self._call(lambda: self._broker.advance(step_ms))

    def now_ms(self) -> int:
        return self._call(lambda: self._broker.advance(0))

    def sent(self) -> list[SentMessage]:
        return self._broker.sent.all()

    def wait_for_sent(self, destination: str, count: int, timeout_s: float) -> list[SentMessage]:
        return self._broker.sent.wait(destination, count, timeout_s)

    def forget_sent(self) -> None:
        self._broker.sent.clear()

    def _call(self, action: Callable[[], T]) -> T:
        """The result of a function that runs in the broker's loop."""
        result = Future[T]()

        def run() -> None:
            try:
                result.set_result(action())
            except BaseException as error:
                result.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return result.result()


@contextmanager
def in_process(settings: dict[str, Any]) -> Iterator[InProcessControl]:
    with LocalBroker.in_thread(Settings.flat(**settings), ObservedBroker) as local:
        yield InProcessControl(local)
