"""What the roles of request/reply record when something ends early, and when they send."""

import asyncio
from pathlib import Path

import pytest

from mqlab.drivers import DriverError, DriverRequester, Reply, RequestBatch, RequestHandler, Responder
from mqlab.drivers.api import OnReply
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker, ForeignMessageError
from mqlab.runner.agents.request_reply import RequesterRole, ResponderRole
from mqlab.runner.timeline import Timeline, now
from runner.lab import rows
from runner.points import asking

MAKER = BodyMaker(1, 64, 1)


class Asked(DriverRequester):
    """Replies to the first requests, then as `last` says: an error, or nothing (None). KeyError is raised at once."""

    def __init__(self, replies: int, last: Reply | DriverError | KeyError | None = None) -> None:
        self._replies = replies
        self._last = last
        self.times: list[int] = []
        self.stopped = self.closed = False

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:  # noqa: ARG002
        self.times.append(now())
        seq = len(self.times) - 1
        reply = Reply(MAKER.make_reply(seq, body), False) if seq < self._replies else self._last
        if isinstance(reply, KeyError):
            raise reply
        if reply is not None:
            asyncio.get_running_loop().call_soon(on_reply, reply)

    def stop(self) -> None:
        self.stopped = True

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "test")


@pytest.fixture
def recorder(folder: RunFolder) -> Recorder:
    return Recorder(folder, 1, 1)


def outcomes(folder: RunFolder) -> list[tuple[int, str]]:
    return sorted((row["first_seq"], row["outcome"]) for row in rows(folder, "sends"))


def test_the_request_that_failed_is_unknown(folder: RunFolder, recorder: Recorder) -> None:
    requester, point = Asked(2, DriverError("gone")), asking(requesters=1, messages=5)
    role = RequesterRole(Role("requester", 0, 0), point, requester, recorder)
    with pytest.raises(DriverError, match="gone"):
        asyncio.run(role.play(Timeline.of(point, 0)))
    recorder.close()
    assert outcomes(folder) == [(0, "confirmed"), (1, "confirmed"), (2, "unknown")]
    assert [row["t_received"] is None for row in rows(folder, "round_trips")].count(True) == 1
    assert (requester.stopped, requester.closed) == (True, False)


def test_the_request_under_way_is_unknown_when_the_role_is_cancelled(folder: RunFolder, recorder: Recorder) -> None:
    requester, point = Asked(1), asking(requesters=1, messages=5)
    role = RequesterRole(Role("requester", 0, 0), point, requester, recorder)

    async def play() -> None:
        playing = asyncio.ensure_future(role.play(Timeline.of(point, 0)))
        while len(requester.times) < 2:
            await asyncio.sleep(0)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing

    asyncio.run(play())
    recorder.close()
    assert outcomes(folder) == [(0, "confirmed"), (1, "unknown")]
    assert requester.stopped


def test_a_foreign_reply_ends_the_role(folder: RunFolder, recorder: Recorder) -> None:
    requester, point = Asked(1, Reply(b"foreign", False)), asking(requesters=1, messages=5)
    role = RequesterRole(Role("requester", 0, 0), point, requester, recorder)
    with pytest.raises(ForeignMessageError):
        asyncio.run(role.play(Timeline.of(point, 0)))
    recorder.close()
    assert outcomes(folder) == [(0, "confirmed")]


@pytest.mark.parametrize("rate", [None, 1000.0])
@pytest.mark.parametrize("sent", [0, 1])
def test_a_driver_that_breaks_ends_the_role(
    folder: RunFolder, recorder: Recorder, rate: float | None, sent: int
) -> None:
    requester, point = Asked(sent, KeyError("broken")), asking(requesters=1, messages=5, rate=rate)
    role = RequesterRole(Role("requester", 0, 0), point, requester, recorder)
    with pytest.raises(KeyError, match="broken"):
        asyncio.run(role.play(Timeline.of(point, 0)))
    recorder.close()
    assert outcomes(folder) == [*[(seq, "confirmed") for seq in range(sent)], (sent, "unknown")]


def test_no_request_is_sent_before_its_time_and_none_is_skipped(folder: RunFolder, recorder: Recorder) -> None:
    requester, point = Asked(100), asking(requesters=1, messages=6, rate=1000.0)
    role = RequesterRole(Role("requester", 0, 0), point, requester, recorder)
    start = now()
    asyncio.run(role.play(Timeline.of(point, start)))
    recorder.close()
    planned = sorted(row["t_planned"] for row in rows(folder, "round_trips"))
    assert planned == [start + seq * 1_000_000 for seq in range(6)]
    assert all(sent >= due for sent, due in zip(requester.times, planned, strict=True))
    assert requester.closed


class Batches(Responder):
    """Hands over two batches, and confirms the first one."""

    def start(self, handler: RequestHandler) -> None:
        for seq in range(2):
            handler.on_requests(RequestBatch([BodyMaker(0, 64, 1).make_single(seq)], False))
            if not seq:
                handler.on_confirmed()

    async def stop(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(("persistent", "second"), [(True, "unknown"), (False, "confirmed")])
def test_replies_that_were_not_confirmed_are_unknown(
    folder: RunFolder, recorder: Recorder, persistent: bool, second: str
) -> None:
    """Others are confirmed when the session was closed without an error."""
    point = asking(responders=1, persistent=persistent)
    role = ResponderRole(Role("responder", 0, 0), point, Batches(), recorder)

    async def play() -> None:
        playing = asyncio.ensure_future(role.play(Timeline.of(point, 0)))
        await asyncio.sleep(0)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await role.close()

    asyncio.run(play())
    recorder.close()
    assert outcomes(folder) == [(0, "confirmed"), (1, second)]


class Broken(Batches):
    def start(self, handler: RequestHandler) -> None:  # noqa: ARG002
        raise DriverError("closed")


def test_a_responder_that_cannot_start_has_failed(recorder: Recorder) -> None:
    role = ResponderRole(Role("responder", 0, 0), asking(responders=1), Broken(), recorder)
    asyncio.run(role.play(Timeline.of(asking(responders=1), 0)))
    assert str(role.failed) == "closed"
