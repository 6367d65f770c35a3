"""How long a driver waits for what a system owes it. No wait for an answer is without an end.

The next message is owed by nobody: who waits for that knows how long. The reply to a request is owed, if not by the
system itself.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from mqlab.drivers.api import DriverError

Result = TypeVar("Result")

# What is answered at once by whoever is well: that something is open or closed, that a transaction has ended.
ANSWER_SECONDS: Final = 30.0
# A system may hold a sender back, or a confirmation, as long as others are slow; but not for ever.
HELD_SECONDS: Final = 300.0
NO_REPLY: Final = "nobody answered the request"


async def owed(
    answer: Awaitable[Result], seconds: float = ANSWER_SECONDS, what: str = "the system did not answer"
) -> Result:
    """The answer. Raises DriverError if there is none in time: `what` happened then.

    A timer and no asyncio.timeout, which costs a request several times as much.
    """
    waiting = asyncio.ensure_future(answer)
    giving_up = asyncio.get_running_loop().call_later(seconds, waiting.cancel)
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    try:
        return await waiting
    except asyncio.CancelledError:
        # Unless it is the one who waits that was cancelled.
        if waiting.cancelled() and task.cancelling() == cancelled:
            raise DriverError(f"{what} within {seconds:g} s") from None
        raise
    finally:
        giving_up.cancel()


def coming(message: Awaitable[Result], *, is_reply: bool) -> Awaitable[Result]:
    """To be awaited: a reply is owed; the next message may take as long as it likes."""
    return owed(message, HELD_SECONDS, NO_REPLY) if is_reply else message
