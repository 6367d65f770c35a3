"""What a driver reaches with a peer that does nothing: on this machine, no system can be measured at more than that."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from mqlab.drivers import DRIVERS
from mqlab.drivers.null_server import NULL_SERVERS
from mqlab.runner.agents.assignment import Assignment, Role
from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError, check
from mqlab.study import Phases, Point

# Where nothing moved in the usual time: on a busy machine a process may not have had its turn by then.
_LONG_MEASURE: Final = 4.0
_LEAD_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Calibration:
    """Messages a second that one producer sends and one consumer receives; None: that could not be found."""

    driver: str
    size: int
    batch: int
    # queue or topic, where the protocol moves them in different ways; "": both.
    domain: str
    sent: float | None
    received: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def wanted(driver: str, points: Iterable[Point]) -> list[tuple[int, int, str]]:
    """(size, batch, domain) of the points whose rate the driver alone could bound: those that wait for nothing."""
    if driver not in NULL_SERVERS:
        return []
    domains_differ = NULL_SERVERS[driver].domains_differ
    free = (point for point in points if point.pattern == "one-way" and point.send == "free" and not point.transaction)
    return sorted({(point.size, point.batch, point.domain if domains_differ else "") for point in free})


def why_not(driver: str) -> str:
    """Why a driver cannot be calibrated; "" if it can."""
    return "" if driver in NULL_SERVERS else "nobody has written one for it"


async def calibrated(
    driver: str, size: int, batch: int, domain: str, point: Point, agent: AgentProcess, jars: str = ""
) -> Calibration:
    """By an agent, as it plays any run; `jars` as a system has them. Raises nothing but for cancellation."""
    sent = received = None
    try:
        async with _null(driver, size, batch) as address:
            played = "topic" if "queues" in DRIVERS[driver].lacks else domain or point.domain
            changed = {"size": size, "batch": batch, "producers": 1, "consumers": 1}
            plain = point.model_copy(update={
                **changed, "domain": played, "destinations": 1, "pattern": "one-way", "send": "free", "transaction": 0,
                "load": "both", "rate": None, "consume_rate": None, "selector": "", "durable": False, "messages": None,
                "persistent": False, "acknowledge": "auto", "topology": "client",
            })  # fmt: skip
            options = NULL_SERVERS[driver].options(size, jars)
            sending = Assignment(
                0, agent.number, plain, driver, address, (Role("producer", 0, 0),), None, options=options
            )
            sent = await _rate(sending, agent)
            received = await _rate(replace(sending, roles=(Role("consumer", 0, 0),)), agent)
    except (AgentLostError, BrokenRunError, OSError):
        pass  # what was not found is not shown
    return Calibration(driver, size, batch, domain, sent, received)


async def _rate(assignment: Assignment, agent: AgentProcess) -> float | None:
    """None if nothing moved: every system would be faster than such a driver."""
    null = NULL_SERVERS[assignment.driver]
    for measure in (null.measure_s, _LONG_MEASURE):
        phases = Phases(warmup=null.warm_up_s, measure=measure, drain=1)
        point = assignment.point.model_copy(update={"phases": phases})
        counted = await _counted(replace(assignment, point=point), agent)
        if counted:
            return counted / measure
    return None


async def _counted(assignment: Assignment, agent: AgentProcess) -> int:
    """Messages in the measure phase."""
    check(await agent.ask("prepare", assignment=assignment.to_json()))
    try:
        start = time.monotonic_ns() + round(_LEAD_SECONDS * 1e9)
        check(await agent.ask("start", timeout=_ANSWER_SECONDS, start=start))
        await asyncio.sleep(max(0.0, start / 1e9 + assignment.point.seconds - time.monotonic()))
    finally:
        finished = await agent.ask("finish", timeout=_ANSWER_SECONDS)
    return int(check(finished)["counted_sent" if assignment.roles[0].role == "producer" else "counted_received"])


@asynccontextmanager
async def _null(driver: str, size: int, batch: int) -> AsyncIterator[str]:
    """Its address. It ends with the pipe to it, even if this process is killed."""
    peer = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mqlab.drivers.null_server", driver, str(size), str(batch),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert peer.stdout is not None
    assert peer.stdin is not None
    try:
        line = (await asyncio.wait_for(peer.stdout.readline(), _ANSWER_SECONDS)).decode().strip()
        if not line.startswith("listening on "):
            raise OSError(f"the null server of {driver} said {line!r}")
        yield line.removeprefix("listening on ")
    finally:
        peer.stdin.close()
        try:
            await asyncio.wait_for(peer.wait(), _ANSWER_SECONDS)
        except TimeoutError:
            peer.kill()
            await peer.wait()
