"""How long a driver waits for what a system owes it. No wait for an answer is without an end.

The next message is owed by nobody: who waits for that knows how long.
"""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from mqlab.drivers.base import DriverError

Result = TypeVar("Result")

# What is answered at once by whoever is well: that something is open or closed, that a transaction has ended.
ANSWER_SECONDS: Final = 30.0
# A system may hold a sender back, or a confirmation, as long as others are slow; but not for ever.
HELD_SECONDS: Final = 300.0


async def owed(answer: Awaitable[Result], seconds: float = ANSWER_SECONDS) -> Result:
    """The answer. Raises DriverError if there is none in time."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise DriverError(f"the system did not answer within {seconds:g} s") from None
