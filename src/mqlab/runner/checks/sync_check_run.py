"""A system of the lab, watched while an agent sends to it."""

from pathlib import Path
from typing import Final

from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError, check
from mqlab.runner.checks.sync_check import ConfirmedSend, SyncCheck, witness
from mqlab.runner.unsupported import lacks
from mqlab.systems import Running, System

# Enough to tell a system that always syncs from one that does so now and then.
_MESSAGES: Final = 40
_SECONDS: Final = 60.0


async def witnessed(system: System, running: Running, agent: AgentProcess, record: Path) -> SyncCheck:
    """What cannot be seen says why; it never fails."""
    if running.pid is None:
        return SyncCheck(why="it is not on this machine")

    async def send() -> list[ConfirmedSend]:
        answer = check(await agent.ask(
            "probe", timeout=_SECONDS, driver=system.driver, address=running.address, options=dict(running.options),
            destination="topic:probe" if "queues" in lacks(system) else "queue:probe", messages=_MESSAGES,
        ))  # fmt: skip
        return [ConfirmedSend(*pair) for pair in answer["times"]]

    try:
        return await witness(running.pid, record, send)
    except (AgentLostError, BrokenRunError) as error:
        return SyncCheck(why=str(error))
