"""The start of this machine's session beside other work, which takes some seconds."""

import asyncio
from concurrent.futures import Future
from threading import Thread

from pyspark.sql import SparkSession

from mqlab.pipeline.session import SparkTarget, spark_session


class SessionStart:
    """Starts the session of this process in a thread, which does not keep the process from ending."""

    def __init__(self, target: SparkTarget) -> None:
        self._session: Future[SparkSession] = Future()
        self._session.set_running_or_notify_cancel()  # a waiting caller cannot cancel it
        Thread(target=self._start, args=(target,), daemon=True).start()

    async def wait(self) -> None:
        """Until the session is there. Raises SparkUnavailableError."""
        await asyncio.wrap_future(self._session)

    @property
    def is_over(self) -> bool:
        return self._session.done()

    def _start(self, target: SparkTarget) -> None:
        try:
            self._session.set_result(spark_session(target))
        except BaseException as error:
            self._session.set_exception(error)
