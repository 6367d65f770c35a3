import asyncio

import pytest
import uvloop

from mqlab.drivers import DriverError, Reply
from mqlab.drivers.common import pending_reply
from mqlab.drivers.common.pending_reply import PendingReply

REPLY = Reply(b"reply", False)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_reply, "BLOCKED_TIMEOUT_S", 0.02)


def test_a_reply_is_handed_over_once() -> None:
    async def play() -> None:
        replies: list[Reply | DriverError] = []
        pending = PendingReply()
        pending.expect("1-1", replies.append)
        pending.settle(REPLY)
        pending.settle(REPLY)
        await asyncio.sleep(0.1)
        assert replies == [REPLY]

    uvloop.run(play())


def test_no_reply_is_an_error_in_the_end() -> None:
    async def play() -> None:
        replies: list[Reply | DriverError] = []
        abandoned: list[str] = []
        pending = PendingReply(lambda: abandoned.append("abandoned"))
        pending.expect("1-1", replies.append)
        while not replies:
            await asyncio.sleep(0.001)
        assert str(replies[0]) == "no reply to the request came within 0.02 s"
        pending.settle(REPLY)
        assert len(replies) == len(abandoned) == 1

    uvloop.run(play())


def test_each_request_has_the_whole_time() -> None:
    """The timer of the first request does not end the second one, and the second one ends as well."""

    async def play() -> None:
        replies: list[Reply | DriverError] = []
        pending, loop = PendingReply(), asyncio.get_running_loop()
        pending.expect("1-1", replies.append)
        await asyncio.sleep(0.01)
        pending.settle(REPLY)
        begun = loop.time()
        pending.expect("1-2", replies.append)
        while len(replies) == 1:
            await asyncio.sleep(0.001)
        assert isinstance(replies[1], DriverError)
        assert loop.time() - begun >= 0.019

    uvloop.run(play())


def test_a_request_that_fails_at_once_does_so_after_it_was_made() -> None:
    async def play() -> None:
        replies: list[Reply | DriverError] = []
        pending = PendingReply()
        pending.expect("1-1", replies.append)
        pending.fail(DriverError("closed"))
        assert replies == []
        await asyncio.sleep(0.001)
        assert [str(reply) for reply in replies] == ["closed"]

    uvloop.run(play())


def test_a_stopped_requester_is_not_called() -> None:
    async def play() -> None:
        replies: list[Reply | DriverError] = []
        abandoned: list[str] = []
        pending = PendingReply(lambda: abandoned.append("abandoned"))
        pending.expect("1-1", replies.append)
        pending.stop()
        pending.stop()
        pending.settle(REPLY)
        await asyncio.sleep(0.05)
        assert (replies, abandoned) == ([], ["abandoned"])

    uvloop.run(play())
