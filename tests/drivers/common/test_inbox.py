import asyncio

import numpy as np
import pytest

from mqlab.drivers import DriverError
from mqlab.drivers.common.confirmations import ConfirmationCounter
from mqlab.drivers.common.inbox import Inbox
from mqlab.wire.equal_frames import bodies_at


class FakeTransport:
    """What an inbox says to its line."""

    def __init__(self) -> None:
        self.paused = False

    def pause_reading(self, _: object) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self, _: object) -> None:
        assert self.paused
        self.paused = False


def put(inbox: Inbox[int], first: int, count: int, redelivered: bool = False) -> None:
    data = np.arange(first, first + count, dtype=np.uint8)
    inbox.put(bodies_at(data, [*range(count)], [1] * count), [*range(first, first + count)], redelivered)


def test_messages_are_given_out_together_up_to_the_room_there_is() -> None:
    async def main() -> None:
        transport = FakeTransport()
        inbox: Inbox[int] = Inbox(4, transport.pause_reading, transport.resume_reading)
        for first, count in ((0, 1), (1, 2), (3, 7)):
            put(inbox, first, count)
        assert transport.paused
        got = []
        while len(inbox):
            bodies, tags, _ = await inbox.take()
            assert bodies.tolist() == [bytes([tag]) for tag in tags]
            got.append(tags)
        assert got == [[0, 1, 2], [3, 4, 5, 6], [7, 8, 9]]
        assert not transport.paused

    asyncio.run(main())


def test_with_spare_room_the_line_is_held_for_bytes() -> None:
    transport = FakeTransport()
    inbox: Inbox[int] = Inbox(1, transport.pause_reading, transport.resume_reading, spare_bytes=10)
    put(inbox, 0, 10)
    assert not transport.paused
    put(inbox, 10, 1)
    assert transport.paused


def test_what_comes_again_is_not_mixed_with_the_rest() -> None:
    async def main() -> None:
        inbox: Inbox[int] = Inbox(10, lambda _: None, lambda _: None)
        put(inbox, 0, 2)
        put(inbox, 2, 2, redelivered=True)
        put(inbox, 4, 2)
        assert [(await inbox.take())[1:] for _ in range(3)] == [([0, 1], False), ([2, 3], True), ([4, 5], False)]

    asyncio.run(main())


def test_who_gives_up_waiting_loses_nothing() -> None:
    async def main() -> None:
        inbox: Inbox[int] = Inbox(10, lambda _: None, lambda _: None)
        waiting = asyncio.ensure_future(inbox.take())
        await asyncio.sleep(0)
        waiting.cancel()
        put(inbox, 0, 1)
        assert (await inbox.take()).tags == [0]

    asyncio.run(main())


def test_after_a_failure_what_is_there_is_still_given_out() -> None:
    async def main() -> None:
        inbox: Inbox[int] = Inbox(10, lambda _: None, lambda _: None)
        put(inbox, 0, 1)
        inbox.fail("gone")
        assert (await inbox.take()).tags == [0]
        with pytest.raises(DriverError, match="gone"):
            await inbox.take()

    asyncio.run(main())


def test_a_sender_waits_for_confirmations() -> None:
    async def main() -> None:
        confirmations = ConfirmationCounter()
        await confirmations.reserve(3, 5)
        more = asyncio.ensure_future(confirmations.reserve(4, 5))
        everything = asyncio.ensure_future(confirmations.wait_confirmed())
        await asyncio.sleep(0)
        confirmations.confirm(1)
        await asyncio.sleep(0)
        assert not more.done()
        confirmations.confirm(1)
        await more
        assert not everything.done()
        confirmations.fail("gone")
        with pytest.raises(DriverError, match="gone"):
            await confirmations.reserve(1, 100)
        everything.cancel()
        await asyncio.gather(everything, return_exceptions=True)

    asyncio.run(main())
