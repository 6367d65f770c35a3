"""The sync check of a running system, with an agent as the sender."""

from pathlib import Path
from typing import Final

from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError, check_answer
from mqlab.runner.checks.sync_check import ConfirmedSend, SyncCheck, trace_syncs
from mqlab.runner.unsupported import unsupported_features
from mqlab.systems import Running, System

# Enough to distinguish a system that always syncs from one that syncs sometimes.
_MESSAGES: Final = 40
_SECONDS: Final = 60.0


async def check_syncs(system: System, running: Running, agent: AgentProcess, record: Path) -> SyncCheck:
    """Check a system. It raises nothing: the result has the reason if the check is not possible."""
    if running.pid is None:
        return SyncCheck(why="it is not on this machine")

    destination = "topic:probe" if "queues" in unsupported_features(system) else "queue:probe"

    async def send() -> list[ConfirmedSend]:
        answer = check_answer(await agent.ask(
            "probe", timeout_s=_SECONDS, driver=system.driver, address=running.address, options=dict(running.options),
            destination=destination, messages=_MESSAGES,
        ))  # fmt: skip
        return [ConfirmedSend(*pair) for pair in answer["times"]]

    try:
        return await trace_syncs(running.pid, record, send)
    except (AgentLostError, BrokenRunError) as error:
        return SyncCheck(why=str(error))
