"""The broker of a test in a process of its own.

A server process imports the broker once. Each broker is a fork of it, so that it is ready within milliseconds, and has
no threads, files or memory of the test's process. It ends with that process.
"""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any, Final

from mqlab.testing.in_process import in_process
from mqlab.testing.sent import SentMessage

_STOP_SECONDS: Final = 10.0


class ForkedControl:
    """Sends calls of `InProcessControl` to the process, and returns their results."""

    def __init__(self, pipe: "Connection[Any, Any]", pid: int) -> None:
        self._pipe, self._lock = pipe, Lock()
        self.pid = pid
        self.port: int = self._result()

    def advance(self, step_ms: int) -> int:
        return int(self._call("advance", step_ms))

    def now_ms(self) -> int:
        return int(self._call("now_ms"))

    def sent(self) -> list[SentMessage]:
        return [*self._call("sent")]

    def wait_for_sent(self, destination: str, count: int, timeout_s: float) -> list[SentMessage]:
        return [*self._call("wait_for_sent", destination, count, timeout_s)]

    def forget_sent(self) -> None:
        self._call("forget_sent")

    def _call(self, name: str, *arguments: object) -> Any:
        with self._lock:
            self._pipe.send((name, arguments))
            return self._result()

    def _result(self) -> Any:
        try:
            result, error = self._pipe.recv()
        except EOFError:
            raise ConnectionError("the broker's process has ended") from None
        if error is not None:
            raise error
        return result


@contextmanager
def forked(settings: dict[str, Any]) -> Iterator[ForkedControl]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(settings, theirs), name="mqlab-broker", daemon=True)
    process.start()
    theirs.close()
    try:
        assert process.pid is not None
        yield ForkedControl(ours, process.pid)
    finally:
        ours.close()
        process.join(_STOP_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


def _serve(settings: dict[str, Any], pipe: "Connection[Any, Any]") -> None:
    """Serve until the other end of the pipe is closed, or its process has ended."""
    # Ctrl-C is for the process of the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with in_process(settings) as broker:
            pipe.send((broker.port, None))
            while True:
                name, arguments = pipe.recv()
                pipe.send((getattr(broker, name)(*arguments), None))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        pipe.send((None, error))
