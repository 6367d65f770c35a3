"""Launchers: they start the agents of a conductor, replace those that are lost, and end them."""

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from mqlab.errors import MqlabError
from mqlab.runner.agents.channel import ProcessChannel
from mqlab.runner.agents.handle import AgentHandle, AgentLostError

# Before a run, an agent that does not answer within this time is replaced.
_ALIVE_SECONDS: Final = 10.0


class AgentStartError(MqlabError):
    """The agents cannot start."""


class AgentLauncher(ABC):
    """`agents` are those that run now, in the order of their numbers. It can start again after it was stopped."""

    def __init__(self) -> None:
        self.agents: list[AgentHandle] = []

    @abstractmethod
    async def start(self, count: int, folder: Path) -> None:
        """Start agents that record events in the run folder. Raises AgentStartError; `stop` is due in any case."""

    @abstractmethod
    async def replace(self, lost: list[AgentHandle], folder: Path) -> None:
        """Raises AgentStartError."""

    async def replace_lost(self, folder: Path) -> None:
        """Replace the agents that do not answer. Raises AgentStartError."""
        asked = (agent.ask("clock", timeout_s=_ALIVE_SECONDS) for agent in self.agents)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        lost = [agent for agent, answer in zip(self.agents, answers, strict=True) if isinstance(answer, AgentLostError)]
        if lost:
            await self.replace(lost, folder)

    async def stop(self) -> None:
        for agent in self.agents:
            await agent.stop()
        self.agents.clear()


class LocalLauncher(AgentLauncher):
    """The agents are processes of this machine."""

    async def start(self, count: int, folder: Path) -> None:  # noqa: ARG002 - it is this machine's
        for number in range(1, count + 1):
            self.agents.append(await start_agent(number))

    async def replace(self, lost: list[AgentHandle], folder: Path) -> None:  # noqa: ARG002 - it is this machine's
        for agent in lost:
            await agent.stop()
            self.agents[self.agents.index(agent)] = await start_agent(agent.number)


async def start_agent(number: int) -> AgentHandle:
    """An agent as a process of this machine."""
    return AgentHandle(number, await ProcessChannel.start())
