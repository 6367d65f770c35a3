"""The time that the pipeline takes of a command that also runs the load."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class PipelineTime:
    """Starts with the command; sums the time within `running`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = self._clock()
        try:
            yield
        finally:
            self._seconds += self._clock() - start

    @property
    def other_seconds(self) -> float:
        """The time since the start without the pipeline."""
        return self._clock() - self._start - self._seconds

    def sentence(self) -> str:
        whole = self._clock() - self._start
        share = 100 * self._seconds / max(whole, 1e-9)
        return f"the pipeline took {self._seconds:.0f} of {whole:.0f} s ({share:.0f} %)"
