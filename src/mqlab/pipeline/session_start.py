"""The start of this machine's session beside other work, which takes some seconds."""

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Final

import psutil
from pyspark.sql import SparkSession

from mqlab.pipeline.session import SparkTarget, spark_session

# Java, and the script that becomes it.
_JAVA_PROCESSES: Final = ("java", "bash")


class SessionStart:
    """Starts the session of this process in a thread, which does not keep the process from ending."""

    def __init__(self, target: SparkTarget) -> None:
        self._earlier = set(psutil.Process().children())
        self._session: Future[SparkSession] = Future()
        self._session.set_running_or_notify_cancel()  # a waiting caller cannot cancel it
        Thread(target=self._start, args=(target,), daemon=True).start()

    async def wait(self) -> None:
        """Until the session is there. Raises SparkUnavailableError."""
        await asyncio.wrap_future(self._session)

    def abandon(self) -> None:
        """Kill the Java process if it is still starting: it would outlive this process."""
        if self._session.done():
            return
        for child in psutil.Process().children():
            with suppress(psutil.NoSuchProcess):
                if child not in self._earlier and child.name() in _JAVA_PROCESSES:
                    child.kill()

    def _start(self, target: SparkTarget) -> None:
        try:
            self._session.set_result(spark_session(target))
        except BaseException as error:
            self._session.set_exception(error)
