"""The request/reply load that several benchmarks share: requesters over one pair of queues, and who answers them."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from mqlab.client import aio
from mqlab.client.errors import MessagingError

REQUESTS, REPLIES = "queue:requests", "queue:replies"
# Before each turn: the broker was idle while the others had theirs.
LEAD = 0.1


async def respond(session: aio.Session) -> None:
    """Until it is cancelled, or the broker is gone."""
    with suppress(MessagingError):
        async for request in await session.consumer(REQUESTS):
            await session.reply(request, request.body)


async def ask_for(requesters: Sequence[aio.Requester], seconds: float, size: int) -> int:
    """Round trips of all requesters together in that time."""
    end, body = time.perf_counter() + seconds, b"r" * size
    return sum(await asyncio.gather(*(_ask_until(one, end, body) for one in requesters)))


async def _ask_until(requester: aio.Requester, end: float, body: bytes) -> int:
    count = 0
    while time.perf_counter() < end:
        await requester.request(body, 60)
        count += 1
    return count
