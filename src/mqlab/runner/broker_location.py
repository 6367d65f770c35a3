"""Where the brokers of a run are: one that is up already, or such as the agents have inside their own processes."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqlab.runner.agents.handle import AgentLostError, AgentProcess, check
from mqlab.study import Point
from mqlab.systems import Running, System, SystemFailedError

# Brokers by the name under which they are sampled, and by their own.
NEAR, FAR = "broker", "broker-b"
_NAMES: Final = {NEAR: "A", FAR: "B"}
# An agent that does not get rid of its broker in this time is not waited for: the conductor will find out.
_LEAVE_SECONDS: Final = 10.0


@dataclass(frozen=True)
class BrokerLocation:
    """Requesters and producers are at the near broker, the others at the far one: the same, unless there are two."""

    brokers: dict[str, Running]
    # Where each agent finds its broker.
    addresses: Sequence[str]
    # Agents that have a broker inside: what they use of the machine is the broker's.
    hosts: Sequence[AgentProcess] = ()

    @property
    def near(self) -> Running:
        return self.brokers[NEAR]

    @property
    def far(self) -> Running:
        return self.brokers.get(FAR, self.near)

    @property
    def remote(self) -> str:
        """The name of the far broker, if it is another one."""
        return _NAMES[FAR] if FAR in self.brokers else ""


@asynccontextmanager
async def site_of(
    point: Point, system: System, running: Running | None, agents: Sequence[AgentProcess], data: Path
) -> AsyncIterator[BrokerLocation]:
    """`running`: the broker of those that are clients. Others have theirs for this run only, with its data in `data`.

    Raises BrokenRunError, AgentLostError and SystemFailedError.
    """
    if point.topology == "client":
        assert running is not None
        yield BrokerLocation({NEAR: running}, [running.address] * len(agents))
        return
    sources = (NEAR,) if point.topology == "bindings" else (NEAR, FAR)
    hosts = agents[: len(sources)]
    async with AsyncExitStack() as stack:
        data.mkdir()
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        brokers = {
            source: await stack.enter_async_context(_hosted(system, agent, _NAMES[source], data))
            for source, agent in zip(sources, hosts, strict=True)
        }
        if len(brokers) > 1:
            await stack.enter_async_context(_linked(brokers[NEAR], _NAMES[FAR], brokers[FAR].address))
            await stack.enter_async_context(_linked(brokers[FAR], _NAMES[NEAR], brokers[NEAR].address))
        addresses = [f"bindings:{_NAMES[source]}" for source in sources]
        yield BrokerLocation(brokers, [*addresses, *[""] * (len(agents) - len(addresses))], hosts)


@asynccontextmanager
async def _linked(broker: Running, to: str, address: str) -> AsyncIterator[None]:
    await broker.link(to, address)
    try:
        yield
    finally:
        # Before the brokers go, or it would try again and again, and complain of it.
        with suppress(SystemFailedError):
            await broker.unlink(to)


@asynccontextmanager
async def _hosted(system: System, agent: AgentProcess, name: str, data: Path) -> AsyncIterator[Running]:
    folder = data / name
    try:
        address = check(await agent.ask(
            "host", system=system.name, settings=system.settings, folder=str(folder), name=name
        ))["address"]  # fmt: skip
        running = await system.attach(address, agent.pid, folder)
        try:
            yield running
        finally:
            await running.stop()
    finally:
        # An agent that is gone has taken its broker with it.
        with suppress(AgentLostError):
            await agent.ask("leave", timeout=_LEAVE_SECONDS)
