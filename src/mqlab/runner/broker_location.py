"""Where the brokers of a run are: a running system, or brokers that the agents host in their own processes."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mqlab.runner.agents.handle import AgentHandle, AgentLostError, check_answer
from mqlab.runner.faults.injector import has_line_faults
from mqlab.study import Point
from mqlab.systems import Running, System, SystemFailedError
from mqlab.wire.address import Address, BadAddressError

# The brokers by their `source` in the samples, and their names. Producers and requesters use the first one, consumers
# and responders the second, if there are two.
FIRST, SECOND = "broker", "broker-b"
_NAMES: Final = {FIRST: "A", SECOND: "B"}
# Time for an agent to stop its broker. If it does not, the conductor replaces the agent.
_STOP_SECONDS: Final = 10.0


@dataclass(frozen=True)
class BrokerLocation:
    """`brokers` by their source in the samples."""

    brokers: dict[str, Running]
    # The address that each agent connects to.
    addresses: Sequence[str]
    # Agents that host a broker: the samples count their resources as the broker's.
    hosts: Sequence[AgentHandle] = ()

    @property
    def first(self) -> Running:
        """The broker of producers and requesters."""
        return self.brokers[FIRST]

    @property
    def last(self) -> Running:
        """The broker of consumers and responders."""
        return self.brokers.get(SECOND, self.first)

    @property
    def is_known(self) -> bool:
        """Whether the lab knows every process of the brokers on this machine."""
        return all(broker.pid is not None or not _is_local(broker.address) for broker in self.brokers.values())

    @property
    def remote(self) -> str:
        """The name of the second broker; "" if there is only one."""
        return _NAMES[SECOND] if SECOND in self.brokers else ""


def _is_local(address: str) -> bool:
    try:
        return Address.parse(address).is_local
    except BadAddressError:
        return True


def check_reachable(point: Point, running: Running | None, agents: Sequence[AgentHandle]) -> None:
    """Raises SystemFailedError if an agent on another machine cannot reach the brokers of a run of the point.

    `running` is the system of topology `client`.
    """
    elsewhere = next((agent for agent in agents if not agent.has_loopback), None)
    if elsewhere is None:
        return
    if running is None:
        reason = f"topology {point.topology} needs agents on this machine, and there is {elsewhere.name}"
    elif has_line_faults(point):
        reason = f"the proxy for faults of the line listens on this machine's loopback, and there is {elsewhere.name}"
    elif _is_loopback(running.address):
        reason = (
            f"{elsewhere.name} cannot reach {running.address}, the loopback of this machine: name a system that "
            "listens on the network (external:driver=NAME,address=tcp:HOST:PORT)"
        )
    else:
        return
    raise SystemFailedError(reason)


def _is_loopback(address: str) -> bool:
    """Other forms of addresses than those of the lab are URLs, which only their driver understands."""
    if "://" in address:
        return Address(urlsplit(address).hostname or "", 0).is_local
    return _is_local(address)


@asynccontextmanager
async def locate_brokers(
    point: Point, system: System, running: Running | None, agents: Sequence[AgentHandle], data: Path
) -> AsyncIterator[BrokerLocation]:
    """The brokers of a run. `running` is the system of topology `client`.

    In other topologies agents host brokers for this run only, with their data under `data`. Raises BrokenRunError,
    AgentLostError and SystemFailedError.
    """
    if point.topology == "client":
        assert running is not None
        yield BrokerLocation({FIRST: running}, [running.address] * len(agents))
        return
    sources = (FIRST,) if point.topology == "bindings" else (FIRST, SECOND)
    hosts = agents[: len(sources)]
    async with AsyncExitStack() as stack:
        data.mkdir()
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        brokers = {
            source: await stack.enter_async_context(_host_broker(system, agent, _NAMES[source], data))
            for source, agent in zip(sources, hosts, strict=True)
        }
        if len(brokers) > 1:
            await stack.enter_async_context(_add_channel(brokers[FIRST], _NAMES[SECOND], brokers[SECOND].address))
            await stack.enter_async_context(_add_channel(brokers[SECOND], _NAMES[FIRST], brokers[FIRST].address))
        addresses = [f"bindings:{_NAMES[source]}" for source in sources]
        yield BrokerLocation(brokers, [*addresses, *[""] * (len(agents) - len(addresses))], hosts)


@asynccontextmanager
async def _add_channel(broker: Running, to: str, address: str) -> AsyncIterator[None]:
    await broker.link(to, address)
    try:
        yield
    finally:
        # Before the brokers stop: a channel without its other end would retry and log errors.
        with suppress(SystemFailedError):
            await broker.unlink(to)


@asynccontextmanager
async def _host_broker(system: System, agent: AgentHandle, name: str, data: Path) -> AsyncIterator[Running]:
    folder = data / name
    try:
        address = check_answer(await agent.ask(
            "host", system=system.name, settings=system.settings, folder=str(folder), name=name
        ))["address"]  # fmt: skip
        running = await system.attach(address, agent.pid, folder)
        try:
            yield running
        finally:
            await running.stop()
    finally:
        # The broker of an agent that has ended has ended too.
        with suppress(AgentLostError):
            await agent.ask("stop_hosting", timeout_s=_STOP_SECONDS)
