"""The rules that hold for the responders of all drivers, by callbacks and by coroutines."""

import asyncio
from collections.abc import Sequence

import pytest
import uvloop

from drivers.answers import Answers
from mqlab.drivers import DriverError, ReceivedBatch, RequestBatch
from mqlab.drivers.api import Reply
from mqlab.drivers.common.coroutines import CoroutineRequester, CoroutineResponder
from mqlab.drivers.common.responding import CallbackResponder
from mqlab.wire.native.bodies import Bodies


class Arrivals(CallbackResponder):
    """Requests come by `arrive`; replies wait for `confirm`, if they are persistent or `blocked`."""

    def __init__(self, *, persistent: bool = False) -> None:
        super().__init__(persistent=persistent)
        self.waiting: list[RequestBatch] = []
        self.replies: list[bytes] = []
        self.blocked = persistent
        self.confirm = asyncio.Event()
        self.failure = ""

    def arrive(self, *bodies: bytes) -> None:
        self.waiting.append(RequestBatch([*bodies], False))
        self.arrived()

    def take_requests(self) -> RequestBatch | None:
        if self.failure:
            raise DriverError(self.failure)
        return self.waiting.pop(0) if self.waiting else None

    def send_replies(self, bodies: Sequence[bytes]) -> bool:
        self.replies += bodies
        return not self.blocked

    async def wait_sent(self) -> None:
        await self.confirm.wait()
        self.confirm.clear()

    async def close(self) -> None: ...


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_requests_are_answered_when_they_arrive() -> None:
    async def play() -> None:
        responder, answers = Arrivals(), Answers()
        responder.arrive(b"before")
        responder.start(answers)
        assert responder.replies == []
        await turns()
        responder.arrive(b"1", b"2")
        assert responder.replies == [b"re:before", b"re:1", b"re:2"]
        assert answers.confirmed == 0

    uvloop.run(play())


def test_the_next_requests_wait_until_persistent_replies_are_confirmed() -> None:
    async def play() -> None:
        responder, answers = Arrivals(persistent=True), Answers()
        responder.start(answers)
        await turns()
        responder.arrive(b"1")
        responder.arrive(b"2")
        await turns()
        assert (responder.replies, answers.confirmed) == ([b"re:1"], 0)
        responder.confirm.set()
        await turns()
        assert (responder.replies, answers.confirmed) == ([b"re:1", b"re:2"], 1)

    uvloop.run(play())


def test_held_back_replies_are_waited_for_and_not_confirmed() -> None:
    async def play() -> None:
        responder, answers = Arrivals(), Answers()
        responder.blocked = True
        responder.start(answers)
        await turns()
        responder.arrive(b"1")
        responder.arrive(b"2")
        responder.blocked = False
        responder.confirm.set()
        await turns()
        assert (responder.replies, answers.confirmed) == ([b"re:1", b"re:2"], 0)

    uvloop.run(play())


def test_after_a_stop_no_request_is_handed_over() -> None:
    async def play() -> None:
        responder, answers = Arrivals(persistent=True), Answers()
        responder.start(answers)
        await turns()
        responder.arrive(b"1")
        await turns()
        await responder.stop()
        responder.confirm.set()
        responder.arrive(b"2")
        await turns()
        assert (len(answers.batches), answers.confirmed, answers.failed.done()) == (1, 0, False)

    uvloop.run(play())


def test_a_failure_is_reported_once_and_ends_the_rest() -> None:
    async def play() -> None:
        responder, answers = Arrivals(), Answers()
        responder.start(answers)
        await turns()
        responder.failure = "lost"
        responder.arrived()
        responder.arrived()
        assert str(await answers.failed) == "lost"

    uvloop.run(play())


def test_an_error_of_the_handler_reaches_it() -> None:
    def refuse(body: bytes) -> bytes:
        raise ValueError(body.decode())

    async def play() -> None:
        responder, answers = Arrivals(), Answers(refuse)
        responder.start(answers)
        await turns()
        responder.arrive(b"a foreign message")
        assert repr(await answers.failed) == "ValueError('a foreign message')"

    uvloop.run(play())


@pytest.mark.parametrize("fails", ["wait_sent", "on_confirmed"])
def test_an_error_after_the_replies_were_sent_is_reported(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def fail() -> None:
        raise KeyError("missing")

    async def play() -> None:
        responder, answers = Arrivals(persistent=True), Answers()
        monkeypatch.setattr(responder if fails == "wait_sent" else answers, fails, fail)
        responder.start(answers)
        await turns()
        responder.arrive(b"1")
        responder.confirm.set()
        assert repr(await answers.failed) == "KeyError('missing')"

    uvloop.run(play())


class Waiting(CoroutineResponder):
    def __init__(self, *, persistent: bool) -> None:
        self.confirms = persistent
        self.requests: asyncio.Queue[list[bytes]] = asyncio.Queue()
        self.replies: list[tuple[list[bytes], bool]] = []

    async def receive(self) -> ReceivedBatch:
        bodies = await self.requests.get()
        if not bodies:
            raise DriverError("lost")
        return ReceivedBatch(Bodies.of(bodies), True)

    async def reply(self, bodies: Sequence[bytes], *, wait: bool) -> None:
        self.replies.append(([*bodies], wait))

    async def close(self) -> None: ...


def test_a_task_answers_for_a_library_with_coroutines() -> None:
    async def play(*, persistent: bool) -> None:
        responder, answers = Waiting(persistent=persistent), Answers()
        responder.start(answers)
        responder.requests.put_nowait([b"1", b"2"])
        responder.requests.put_nowait([])
        assert str(await answers.failed) == "lost"
        assert answers.batches == [RequestBatch([b"1", b"2"], True)]
        assert responder.replies == [([b"re:1", b"re:2"], persistent)]
        assert answers.confirmed == int(persistent)

    for persistent in (True, False):
        uvloop.run(play(persistent=persistent))


def test_a_stopped_task_has_ended() -> None:
    async def play() -> None:
        responder, answers = Waiting(persistent=False), Answers()
        responder.start(answers)
        await turns()
        await responder.stop()
        responder.requests.put_nowait([b"1"])
        await turns()
        assert answers.batches == []
        assert not answers.failed.done()

    uvloop.run(play())


class Library(CoroutineRequester):
    async def request(self, body: bytes, correlation_id: str) -> Reply:
        if body == b"never":
            await asyncio.get_running_loop().create_future()
        if body == b"fail":
            raise DriverError(correlation_id)
        if body == b"break":
            raise KeyError(correlation_id)
        return Reply(body, False)

    async def close(self) -> None: ...


def test_a_task_asks_for_a_library_with_coroutines() -> None:
    async def play() -> None:
        requester = Library()
        replies: list[Reply | DriverError] = []
        requester.ask(b"body", "1-1", replies.append)
        assert replies == []
        await turns()
        requester.ask(b"fail", "1-2", replies.append)
        await turns()
        assert (replies[0], str(replies[1])) == (Reply(b"body", False), "1-2")
        requester.ask(b"break", "1-3", replies.append)
        await turns()
        assert repr(replies[2]) == "DriverError(\"KeyError('1-3')\")"
        requester.ask(b"never", "1-4", replies.append)
        await turns()
        requester.stop()
        await turns()
        assert len(replies) == 3

    uvloop.run(play())
