"""What arrives is compared with what was sent: the length and the filler of every body, the request of every reply."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlab.drivers import (
    DriverError,
    DriverRequester,
    ReceivedBatch,
    Reply,
    RequestBatch,
    RequestHandler,
    Responder,
)
from mqlab.drivers.api import OnReply
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyCheck, BodyMaker, is_reply_to, message_id
from mqlab.runner.agents.receipts import ReceiptLog
from mqlab.runner.agents.request_reply import RequesterRole, ResponderRole
from mqlab.runner.timeline import Timeline
from mqlab.wire.native.bodies import Bodies, decode, encode
from runner.lab import rows
from runner.points import asking

Change = Callable[[bytes], bytes]


def flipped(body: bytes, position: int) -> bytes:
    return body[:position] + bytes([body[position] ^ 16]) + body[position + 1 :]


def made(count: int, size: int) -> list[bytes]:
    return [row.tobytes() for row in BodyMaker(3, size, count).make(0, count)]


def damaged_rows(bodies: list[bytes], size: int) -> list[int]:
    flags = BodyCheck(size).find_damaged(decode(encode(bodies)))
    return [] if flags is None else np.flatnonzero(flags).tolist()


# Few and many, and so many that one step does not compare them all.
@pytest.mark.parametrize(("count", "size"), [(1, 12), (5, 100), (8, 12), (9, 12), (40, 100), (200, 1024), (3, 100_000)])
def test_bodies_as_they_were_made_are_intact(count: int, size: int) -> None:
    assert damaged_rows(made(count, size), size) == []


@settings(deadline=None)
@given(count=st.sampled_from([1, 3, 8, 9, 200]), size=st.sampled_from([13, 100, 1024]), data=st.data())
def test_a_flipped_bit_in_any_filler_is_found(count: int, size: int, data: st.DataObject) -> None:
    bodies = made(count, size)
    changed = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    for row in changed:
        bodies[row] = flipped(bodies[row], data.draw(st.integers(12, size - 1)))
    assert damaged_rows(bodies, size) == sorted(changed)


@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"\0", lambda body: body[:12]])
def test_a_body_of_another_length_is_found(count: int, change: Change) -> None:
    bodies = made(count, 100)
    bodies[1] = change(bodies[1])
    assert damaged_rows(bodies, 100) == [1]
    assert damaged_rows([change(body) for body in made(count, 100)], 100) == [*range(count)]


def test_a_part_of_a_batch_is_compared_alone() -> None:
    bodies = made(30, 100)
    bodies[3] = flipped(bodies[3], 50)
    whole = decode(encode(bodies))
    part = Bodies(whole.data, whole.offsets[4:25])
    assert BodyCheck(100).find_damaged(part) is None


def test_exchanged_blocks_are_found() -> None:
    (body,) = made(1, 12 + 3 * 4096)
    exchanged = body[:12] + body[12 + 4096 : 12 + 8192] + body[12 : 12 + 4096] + body[12 + 8192 :]
    assert damaged_rows([exchanged], len(body)) == [0]


def test_the_damaged_messages_of_each_range_are_recorded(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "test")
    recorder = Recorder(folder, 1, 1)
    bodies = made(20, 100)
    for row in (0, 2, 15):
        bodies[row] = flipped(bodies[row], 99)
    del bodies[10]
    log = ReceiptLog(Role("consumer", 0, 0), BodyCheck(100), recorder)
    log.record(ReceivedBatch(decode(encode(bodies)), False), 5)
    recorder.close()
    found = [(row["first_seq"], row["count"], row["damaged"]) for row in rows(folder, "receipts")]
    assert found == [(0, 10, 2), (11, 9, 1)]


class ChangedReplies(DriverRequester):
    """Replies as a responder would, after a change."""

    def __init__(self, size: int, changes: Sequence[Change]) -> None:
        self._maker = BodyMaker(1, size, 1)
        self._changes = [*changes]
        self._seq = 0

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:
        requester, seq = message_id(body)
        assert correlation_id == f"{requester}-{seq}"
        reply = self._maker.make_reply(self._seq, body)
        self._seq += 1
        asyncio.get_running_loop().call_soon(on_reply, Reply(self._changes.pop(0)(reply), False))

    def stop(self) -> None: ...

    async def close(self) -> None: ...


def test_each_reply_is_compared_with_its_request(tmp_path: Path) -> None:
    changes: dict[str, tuple[Change, bool, int]] = {
        "as it was sent": (lambda reply: reply, False, 0),
        "the id of another requester": (lambda reply: flipped(reply, 12), True, 0),
        "the id of an earlier request": (lambda reply: flipped(reply, 16), True, 0),
        "another filler": (lambda reply: flipped(reply, 63), False, 1),
        "too short": (lambda reply: reply[:-1], False, 1),
        "without the id of a request": (lambda reply: reply[:12], True, 1),
    }
    chosen = asking(requesters=1, responders=1, size=64, messages=len(changes))
    folder = RunFolder.create(tmp_path, "test")
    recorder = Recorder(folder, 1, 1)
    requester = ChangedReplies(64, [change for change, _, _ in changes.values()])
    role = RequesterRole(Role("requester", 0, 0), chosen, requester, recorder)
    asyncio.run(role.play(Timeline.of(chosen, 0)))
    recorder.close()
    trips, receipts = rows(folder, "round_trips"), rows(folder, "receipts")
    found = zip(changes, (row["mismatched"] for row in trips), (row["damaged"] for row in receipts), strict=True)
    assert [*found] == [(name, mismatched, damaged) for name, (_, mismatched, damaged) in changes.items()]


class Requests(Responder):
    """Hands over batches of requests, and keeps the replies."""

    def __init__(self, *batches: list[bytes]) -> None:
        self._batches = batches
        self.replies: list[bytes] = []

    def start(self, handler: RequestHandler) -> None:
        for batch in self._batches:
            self.replies += handler.on_requests(RequestBatch(batch, False))
        handler.on_failure(DriverError("no more requests"))

    async def stop(self) -> None: ...

    async def close(self) -> None: ...


def test_each_reply_carries_the_id_of_its_request() -> None:
    requesters = [BodyMaker(number, 64, 1) for number in range(3)]
    requests = [requesters[number].make_single(seq) for number, seq in ((0, 7), (2, 2**33), (1, 8), (1, 9))]
    responder = Requests(requests[:1], requests[1:])
    role = ResponderRole(Role("responder", 5, 0), asking(), responder, Recorder(None, 1, 1))
    asyncio.run(role.play(Timeline.of(asking(), 0)))
    assert str(role.failed) == "no more requests"
    assert [message_id(reply) for reply in responder.replies] == [(5, seq) for seq in range(4)]
    for number, reply in enumerate(responder.replies):
        assert [is_reply_to(request, reply) for request in requests] == [n == number for n in range(4)]
        assert not BodyCheck(64).is_damaged_reply(reply)
