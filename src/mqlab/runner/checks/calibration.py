"""Calibration: the rates of a driver with its null server. The lab can measure no system at a higher rate."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Final

from mqlab.drivers import DRIVERS
from mqlab.drivers.null_server import NULL_SERVERS
from mqlab.runner.agents.assignment import Assignment, Role
from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError, check_answer
from mqlab.study import Phases, Point

# Further tries, if no message moved in the first: a busy machine may not have scheduled the process in time.
_LONGER_MEASURE_SECONDS: Final = (4.0, 16.0)
_START_DELAY_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 60.0
# A null server writes so much at once; each message is one of its own.
_MAX_WRITE_MESSAGES: Final = 1024
_WRITE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Calibration:
    """The rates of one producer and one consumer, in messages/s; None if the measurement failed."""

    driver: str
    size: int
    # "queue" or "topic", if the driver uses different commands for them; "" for both.
    domain: str
    sent: float | None
    received: float | None

    def to_json(self) -> dict[str, str | int | float | None]:
        return asdict(self)


def combinations(driver: str, points: Iterable[Point]) -> list[tuple[int, str]]:
    """(size, domain) of the points that the driver may limit: those that do not wait for confirmations."""
    if driver not in NULL_SERVERS:
        return []
    domains_differ = NULL_SERVERS[driver].domains_differ
    unconfirmed = (p for p in points if p.pattern == "one-way" and p.send == "free" and not p.transaction)
    return sorted({(point.size, point.domain if domains_differ else "") for point in unconfirmed})


def why_uncalibrated(driver: str) -> str:
    """Why a driver cannot be calibrated; "" if it can."""
    return "" if driver in NULL_SERVERS else "it has no null server"


async def calibrate(
    driver: str, size: int, domain: str, point: Point, agent: AgentProcess, jars: str = ""
) -> Calibration:
    """Message by message. Measure with an agent; `jars` are those of the system. It raises nothing but cancellation."""
    sent = received = None
    try:
        async with _null_server(driver, size) as address:
            kind = "topic" if "queues" in DRIVERS[driver].lacks else domain or point.domain
            changed = {"size": size, "producers": 1, "consumers": 1}
            simple = point.model_copy(update={
                **changed, "domain": kind, "destinations": 1, "pattern": "one-way", "send": "free", "transaction": 0,
                "load": "both", "rate": None, "consume_rate": None, "selector": "", "durable": False, "messages": None,
                "persistent": False, "acknowledge": "auto", "topology": "client",
            })  # fmt: skip
            options = NULL_SERVERS[driver].options(size, jars)
            sending = Assignment(
                run=0, agent=agent.number, point=simple, driver=driver, address=address,
                roles=(Role("producer", 0, 0),), folder=None, options=options,
            )  # fmt: skip
            sent = await _rate(sending, agent)
            received = await _rate(replace(sending, roles=(Role("consumer", 0, 0),)), agent)
    except (AgentLostError, BrokenRunError, OSError):
        pass  # the rates stay None
    return Calibration(driver, size, domain, sent, received)


async def _rate(assignment: Assignment, agent: AgentProcess) -> float | None:
    """Messages/s; None if no message moved."""
    null_server = NULL_SERVERS[assignment.driver]
    for measure_seconds in (null_server.measure_s, *_LONGER_MEASURE_SECONDS):
        phases = Phases(warmup=null_server.warm_up_s, measure=measure_seconds, drain=1)
        point = assignment.point.model_copy(update={"phases": phases})
        counted = await _counted(replace(assignment, point=point), agent)
        if counted:
            return counted / measure_seconds
    return None


async def _counted(assignment: Assignment, agent: AgentProcess) -> int:
    check_answer(await agent.ask("prepare", assignment=assignment.to_json()))
    try:
        start = time.monotonic_ns() + round(_START_DELAY_SECONDS * 1e9)
        check_answer(await agent.ask("start", timeout_s=_ANSWER_SECONDS, start=start))
        await asyncio.sleep(max(0.0, start / 1e9 + assignment.point.seconds - time.monotonic()))
    finally:
        finished = await agent.ask("finish", timeout_s=_ANSWER_SECONDS)
    return int(check_answer(finished)["counted_sent" if assignment.roles[0].role == "producer" else "counted_received"])


@asynccontextmanager
async def _null_server(driver: str, size: int) -> AsyncIterator[str]:
    """The address of a null server. It ends when its stdin closes, so also when this process is killed."""
    batch = max(1, min(_MAX_WRITE_MESSAGES, _WRITE_BYTES // size))
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mqlab.drivers.null_server", driver, str(size), str(batch),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert server.stdout is not None
    assert server.stdin is not None
    try:
        line = (await asyncio.wait_for(server.stdout.readline(), _ANSWER_SECONDS)).decode().strip()
        if not line.startswith("listening on "):
            raise OSError(f"the null server of {driver} printed {line!r}")
        yield line.removeprefix("listening on ")
    finally:
        server.stdin.close()
        try:
            await asyncio.wait_for(server.wait(), _ANSWER_SECONDS)
        except TimeoutError:
            server.kill()
            await server.wait()
