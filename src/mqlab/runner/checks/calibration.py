"""Calibration: the CPU time that the lab's own work takes for a message: numbering, checking and recording it.

Calibration plays the roles of an agent with links that do nothing: no protocol, no socket, no client library. A client
library belongs to the system that it talks to, so its time is never the lab's.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from mqlab.drivers import (
    DriverError,
    DriverRequester,
    ReceivedBatch,
    Receiver,
    Reply,
    RequestBatch,
    RequestHandler,
    Responder,
    Sender,
)
from mqlab.drivers.api import Matrix, MessageHeaders, OnReply, Properties
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.runner.agents.assignment import Role
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.consumer import ConsumerRole
from mqlab.runner.agents.producer import ProducerRole
from mqlab.runner.agents.request_reply import RequesterRole, ResponderRole
from mqlab.runner.agents.varied.bodies import single_maker
from mqlab.runner.timeline import NEVER, Timeline
from mqlab.study import Point
from mqlab.wire.native.bodies import Bodies
from mqlab.wire.native.payload import equal_offsets

# The rows of one measurement stay in memory: an agent writes its records after the measure phase, or by the million.
_CALLS: Final = 4000
# Of one measurement, so that the largest messages take no longer than others; but no fewer calls than these.
_MOST_BYTES: Final = 256 * 1024 * 1024
_LEAST_CALLS: Final = 20
# The least of several measurements: the others waited for memory that other processes used.
_MEASUREMENTS: Final = 3
# Messages of the calls that show what a further message costs, and their bytes.
_MANY: Final = 4096
_MANY_BYTES: Final = 1024 * 1024
_ROLE: Final = 0

# CPU seconds of the lab for calls of the driver with so many messages each.
_Play = Callable[[Point, int, int], Awaitable[float]]


@dataclass(frozen=True)
class Calibration:
    """CPU seconds of the lab for a call of the driver, and for each message of the call.

    With request/reply a call is a round trip: `sent` at the requester, `received` at the responder.
    """

    pattern: str
    send: str
    transacted: bool
    size: int
    sent_call: float
    sent_message: float
    received_call: float
    received_message: float

    def to_json(self) -> dict[str, str | int | float]:
        return asdict(self)


def combinations(points: Iterable[Point]) -> list[Point]:
    """One point for each combination of pattern, way of sending and size: the lab does the same work for the others."""
    by_key = {(point.size, point.bodies, point.pattern, point.send, point.transaction > 0): point for point in points}
    return [by_key[key] for key in sorted(by_key)]


async def calibrate(point: Point) -> Calibration:
    """Measure the lab's own work for messages as those of the point."""
    asks = point.pattern == "request-reply"
    sent = await _cost(_requests if asks else _sends, point)
    received = await _cost(_replies if asks else _receives, point)
    return Calibration(point.pattern, point.send, point.transaction > 0, point.size, *sent, *received)


async def _cost(play: _Play, point: Point) -> tuple[float, float]:
    """The seconds of a call, and of each message in it."""
    single = await _least(play, point, 1)
    if point.pattern == "request-reply":
        return single, 0.0
    many = max(2, min(_MANY, _MANY_BYTES // point.size))
    message = max(0.0, (await _least(play, point, many) - single) / (many - 1))
    return max(0.0, single - message), message


async def _least(play: _Play, point: Point, batch: int) -> float:
    calls = max(min(_CALLS // batch, _MOST_BYTES // (batch * point.size)), _LEAST_CALLS)
    return min([await play(point, batch, calls) / calls for _ in range(_MEASUREMENTS)])


async def _sends(point: Point, batch: int, calls: int) -> float:
    alone = _alone(point, batch, calls)
    is_bounded = alone.is_unthrottled
    role = ProducerRole(Role("producer", _ROLE, 0), alone, _NullSender(), _recorder(), bounded=is_bounded)
    return await _cpu_seconds(role.play)


async def _receives(point: Point, batch: int, calls: int) -> float:
    receiver = _NullReceiver(_arrival(point, batch), calls)

    async def open_receiver() -> Receiver:
        return receiver

    role = ConsumerRole(Role("consumer", _ROLE, 0), _alone(point, batch, calls), open_receiver, _recorder())
    await role.open()
    seconds = await _cpu_seconds(role.play)
    return _ended(seconds, role.failed)


async def _requests(point: Point, batch: int, calls: int) -> float:
    alone = _alone(point, batch, calls)
    return await _cpu_seconds(RequesterRole(Role("requester", _ROLE, 0), alone, _NullRequester(), _recorder()).play)


async def _replies(point: Point, batch: int, calls: int) -> float:
    requests = RequestBatch(_arrival(point, batch).bodies.tolist(), redelivered=False)
    responder = _NullResponder(requests, calls, persistent=point.persistent)
    role = ResponderRole(Role("responder", _ROLE, 0), _alone(point, batch, calls), responder, _recorder())
    seconds = await _cpu_seconds(role.play)
    return _ended(seconds, role.failed)


def _alone(point: Point, batch: int, calls: int) -> Point:
    """The point with one role, which makes so many calls as fast as it can."""
    one_role = dict.fromkeys(("producers", "consumers", "requesters", "responders"), 1)
    return point.model_copy(update={
        **one_role, "batch": batch, "messages": calls * batch, "transaction": batch if point.transaction else 0,
        "rate": None, "profile": "", "think": 0.0, "consume_rate": None, "selector": "", "properties": {},
        "priority": "", "expires": 0.0, "key": "", "load": "both",
    })  # fmt: skip


def _arrival(point: Point, batch: int) -> ReceivedBatch:
    if point.has_varied_bodies:
        maker = single_maker(_ROLE, point)
        return ReceivedBatch(Bodies.of([maker.make_single(seq) for seq in range(batch)]), redelivered=False)
    data = BodyMaker(_ROLE, point.size, batch).make(0, batch).reshape(-1)
    return ReceivedBatch(Bodies(data, equal_offsets(batch, point.size)), redelivered=False)


def _recorder() -> Recorder:
    return Recorder(RunFolder(Path()), run=0, agent=0)  # it is never closed, so it writes no file


async def _cpu_seconds(play: Callable[[Timeline], Awaitable[None]]) -> float:
    begin = time.thread_time()
    await play(Timeline(start=0, measure=0, stop=NEVER))
    return time.thread_time() - begin


class _EndOfCallsError(DriverError):
    """Ends a role that runs until it is stopped."""


def _ended(seconds: float, failed: Exception | None) -> float:
    if failed is not None and not isinstance(failed, _EndOfCallsError):
        raise failed
    return seconds


class _NullSender(Sender):
    async def send(
        self, bodies: Matrix, *, wait: bool, properties: Properties | None = None, headers: MessageHeaders | None = None
    ) -> None:
        pass

    async def commit(self) -> None:
        pass

    async def wait_accepted(self, max_pending: int) -> None:
        pass

    async def close(self) -> None:
        pass


class _NullReceiver(Receiver):
    """Delivers the same messages with each call."""

    def __init__(self, arrival: ReceivedBatch, calls: int) -> None:
        self._arrivals = iter([arrival] * calls)

    async def receive(self) -> ReceivedBatch:
        arrival = next(self._arrivals, None)
        if arrival is None:
            raise _EndOfCallsError("no more calls")
        return arrival

    async def commit(self) -> None:
        pass

    async def close(self) -> None:
        pass


class _NullRequester(DriverRequester):
    """Replies to each request when it has been sent."""

    def __init__(self) -> None:
        self._asked: list[tuple[Reply, OnReply]] = []
        self._replying = False

    def ask(self, body: bytes, correlation_id: str, on_reply: OnReply) -> None:  # noqa: ARG002
        self._asked.append((Reply(body, redelivered=False), on_reply))
        if not self._replying:
            self._replying = True
            asyncio.get_running_loop().call_soon(self._reply)

    def _reply(self) -> None:
        while self._asked:
            reply, on_reply = self._asked.pop()
            on_reply(reply)

    def stop(self) -> None:
        pass

    async def close(self) -> None:
        pass


class _NullResponder(Responder):
    """Hands over the same requests again and again."""

    def __init__(self, requests: RequestBatch, calls: int, *, persistent: bool) -> None:
        self._requests = requests
        self._calls = calls
        self._persistent = persistent

    def start(self, handler: RequestHandler) -> None:
        asyncio.get_running_loop().call_soon(self._call, handler)

    def _call(self, handler: RequestHandler) -> None:
        for _ in range(self._calls):
            handler.on_requests(self._requests)
            if self._persistent:
                handler.on_confirmed()
        handler.on_failure(_EndOfCallsError("no more calls"))

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        pass
