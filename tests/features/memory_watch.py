"""Resident memory of a broker process, watched while a test goes on."""

import threading
from types import TracebackType

import psutil

from .broker_process import BrokerProcess

_SECONDS = 0.005


class MemoryWatch:
    """The highest resident bytes of the broker above those of an idle one, restarts included."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._idle = broker.rss
        self.peak = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stopped.wait(_SECONDS):
            try:
                self.peak = max(self.peak, self._broker.rss - self._idle)
            except psutil.NoSuchProcess:
                continue

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
