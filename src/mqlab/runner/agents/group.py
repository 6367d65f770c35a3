"""The agents of a run as one: what is asked of all of them, and what they have done together."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from mqlab.runner.agents.assignment import ACTIVE, Assignment
from mqlab.runner.agents.handle import AgentLostError, AgentProcess, BrokenRunError, NoAnswerError, check
from mqlab.runner.sampling.sampler import Sampler

_POLL_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.2
# An agent that must stop has this long to write its events.
_FINISH_SECONDS: Final = 20.0
# A fixed amount of work may take its time; whether it goes on is looked after otherwise.
_LONGEST_SECONDS: Final = 24 * 3600.0

# One that works can be asked how far it is, whatever it waits for.
_REACHED_SECONDS: Final = 3.0

Answer = dict[str, Any]


class AgentGroup:
    """All methods raise BrokenRunError and AgentLostError."""

    def __init__(self, agents: Sequence[AgentProcess]) -> None:
        self.agents = agents

    async def prepare(self, assignments: Sequence[Assignment]) -> None:
        # Those with consumers first: a topic's message reaches only those who are there.
        pairs = [*zip(self.agents, assignments, strict=True)]
        for late in (False, True):
            await self._prepare([pair for pair in pairs if _only_begins(pair[1]) == late])

    async def _prepare(self, pairs: Sequence[tuple[AgentProcess, Assignment]]) -> None:
        """Side by side; an error is raised once nothing is under way any more."""
        asked = (agent.ask("prepare", assignment=assignment.to_json()) for agent, assignment in pairs)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, NoAnswerError):
                raise await self._whose_fault(answer) from answer
            if isinstance(answer, BaseException):
                raise answer
            check(answer)

    async def play(
        self, do: str, start: int, sampler: Sampler, *, seconds: float | None, patience: float
    ) -> list[Answer]:
        """The answers, once all that begin are done; `seconds` is the most that may take.

        Without, it ends when nothing has moved for `patience` seconds. It ends sooner if an agent or a system is gone.
        """
        timeout = _LONGEST_SECONDS if seconds is None else seconds
        asked = [agent.ask(do, timeout=timeout, start=start) for agent in self.agents]
        playing = asyncio.ensure_future(asyncio.gather(*asked))
        trouble = [asyncio.ensure_future(agent.lost()) for agent in self.agents]
        trouble.append(asyncio.ensure_future(sampler.failure()))
        if seconds is None:
            trouble.append(asyncio.ensure_future(self._standstill(patience)))
        try:
            await asyncio.wait((playing, *trouble), return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                lost = [agent.number for agent, task in zip(self.agents, trouble, strict=False) if task.done()]
                why = str(sampler.failed) if sampler.failed else f"nothing has moved for {patience:g} s"
                raise BrokenRunError(f"agent {lost[0]} ended in mid-run" if lost else why)
            return [check(answer) for answer in playing.result()]
        except NoAnswerError as error:
            raise await self._whose_fault(error) from error
        finally:
            for task in (playing, *trouble):
                task.cancel()
            await asyncio.gather(playing, *trouble, return_exceptions=True)

    async def drain(self, expected: dict[int, int], seconds: float) -> None:
        """Until every subscription has what was sent to it, or nothing has come for so long: the audit tells which.

        What still comes is not lost, however long it takes.
        """
        deadline, before = time.monotonic() + seconds, -1
        while time.monotonic() < deadline:
            received, moved = await self._received()
            if all(count >= expected.get(at, 0) for (at, _), count in received.items()):
                return
            if moved > before:
                deadline, before = time.monotonic() + seconds, moved
            await asyncio.sleep(_POLL_SECONDS)

    async def finish(self) -> list[Answer]:
        return [check(answer) for answer in await asyncio.gather(*(agent.ask("finish") for agent in self.agents))]

    async def abandon(self) -> None:
        """Let the agents write what they have; one that cannot is not waited for."""
        asked = (agent.ask("finish", timeout=_FINISH_SECONDS) for agent in self.agents)
        await asyncio.gather(*asked, return_exceptions=True)

    async def _whose_fault(self, error: NoAnswerError) -> Exception:
        """Agents that can still be asked wait for the system: it hangs."""
        try:
            async with asyncio.timeout(_REACHED_SECONDS):
                await self._received()
        except (TimeoutError, AgentLostError):
            return error
        except BrokenRunError as broken:
            return broken
        return BrokenRunError(f"the system hangs: {error}")

    async def _received(self) -> tuple[dict[tuple[int, int], int], int]:
        """Messages for each subscription to each destination; sent and received in all."""
        received: dict[tuple[int, int], int] = {}
        moved = 0
        for answer in await asyncio.gather(*(agent.ask("received") for agent in self.agents)):
            moved += check(answer)["moved"]
            for at, subscription, count in answer["received"]:
                received[at, subscription] = received.get((at, subscription), 0) + count
        return received, moved

    async def _standstill(self, patience: float) -> None:
        """Returns when nothing has moved for so long; what an agent complains of, its answer will tell."""
        deadline, before = time.monotonic() + patience, -1
        while time.monotonic() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                _, moved = await self._received()
            except (BrokenRunError, AgentLostError):
                continue
            if moved > before:
                deadline, before = time.monotonic() + patience, moved


def sent_to(answers: Sequence[Answer]) -> dict[int, int]:
    """Messages sent to each destination."""
    sent: dict[int, int] = {}
    for answer in answers:
        for at, messages in answer["sent"].items():
            sent[int(at)] = sent.get(int(at), 0) + messages
    return sent


def _only_begins(assignment: Assignment) -> bool:
    return all(role.role in ACTIVE for role in assignment.roles)
