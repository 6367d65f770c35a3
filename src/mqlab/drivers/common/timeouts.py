"""How long a driver waits for an answer of the system. Every such wait ends.

A wait for the next message has no time limit: the role that waits decides. The reply to a request has one.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from mqlab.drivers.api import DriverError

Result = TypeVar("Result")

# For what a working system answers at once: open, close, the end of a transaction.
ANSWER_TIMEOUT_S: Final = 30.0
# For sends and confirmations, which a system may hold back while consumers are slow.
BLOCKED_TIMEOUT_S: Final = 300.0
NO_REPLY: Final = "no reply to the request came"


async def with_timeout(
    answer: Awaitable[Result], timeout_s: float = ANSWER_TIMEOUT_S, failure: str = "the system did not answer"
) -> Result:
    """Return the answer. Raise DriverError, which begins with `failure`, if it does not come in time.

    A timer costs a request far less than asyncio.timeout does.
    """
    waiting = asyncio.ensure_future(answer)
    timer = asyncio.get_running_loop().call_later(timeout_s, waiting.cancel)
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        return await waiting
    except asyncio.CancelledError:
        # The timer cancels `waiting` alone; a cancellation of this task goes on to the caller.
        if waiting.cancelled() and task.cancelling() == cancelled:
            raise DriverError(f"{failure} within {timeout_s:g} s") from None
        raise
    finally:
        timer.cancel()
