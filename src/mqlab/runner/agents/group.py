"""All agents of a run: commands to all of them, and their answers together."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from mqlab.json_values import JsonObject
from mqlab.runner.agents.assignment import ACTIVE, Assignment
from mqlab.runner.agents.handle import AgentHandle, AgentLostError, BrokenRunError, NoAnswerError, check_answer
from mqlab.runner.sampler import Sampler

_POLL_SECONDS: Final = 0.01
_PROGRESS_POLL_SECONDS: Final = 0.2
# Time for an agent to write its events when the run is aborted.
_FINISH_SECONDS: Final = 20.0
# A fixed workload has no time limit of its own: the group looks at its progress instead.
_MAX_SECONDS: Final = 24 * 3600.0
# A working agent reports its progress within this time, also while it waits for the system.
_PROGRESS_SECONDS: Final = 3.0


class AgentGroup:
    """All methods raise BrokenRunError and AgentLostError."""

    def __init__(self, agents: Sequence[AgentHandle]) -> None:
        self.agents = agents

    async def prepare(self, assignments: Sequence[Assignment]) -> None:
        # Agents with consumers first: only subscriptions that exist get a topic's message.
        pairs = [*zip(self.agents, assignments, strict=True)]
        for only_active in (False, True):
            await self._prepare([pair for pair in pairs if _is_only_active(pair[1]) == only_active])

    async def _prepare(self, pairs: Sequence[tuple[AgentHandle, Assignment]]) -> None:
        """Prepare agents concurrently. An error is raised when all of them have answered."""
        answers = (agent.ask("prepare", assignment=assignment.to_json()) for agent, assignment in pairs)
        for answer in await asyncio.gather(*answers, return_exceptions=True):
            if isinstance(answer, NoAnswerError):
                raise await self._diagnose(answer) from answer
            if isinstance(answer, BaseException):
                raise answer
            check_answer(answer)

    async def play(
        self, command: str, start: int, sampler: Sampler, *, timeout_s: float | None, idle_timeout_s: float
    ) -> list[JsonObject]:
        """The agents' answers, when all active roles are done. `start`: by the conductor's clock.

        Without `timeout_s` it raises BrokenRunError when no message has moved for `idle_timeout_s`. It raises at once
        when an agent or the system ends.
        """
        answer_timeout_s = _MAX_SECONDS if timeout_s is None else timeout_s
        answers = [
            agent.ask(command, timeout_s=answer_timeout_s, start=agent.clock.to_agent(start)) for agent in self.agents
        ]
        playing = asyncio.ensure_future(asyncio.gather(*answers))
        failures = [asyncio.ensure_future(agent.wait_lost()) for agent in self.agents]
        failures.append(asyncio.ensure_future(sampler.wait_failed()))
        if timeout_s is None:
            failures.append(asyncio.ensure_future(self._wait_idle(idle_timeout_s)))
        tasks: list[asyncio.Future[list[JsonObject]] | asyncio.Future[None]] = [playing, *failures]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():
                lost = [agent.name for agent, task in zip(self.agents, failures, strict=False) if task.done()]
                reason = str(sampler.failed) if sampler.failed else f"nothing has moved for {idle_timeout_s:g} s"
                raise BrokenRunError(f"{lost[0]} ended in mid-run" if lost else reason)
            return [check_answer(answer) for answer in playing.result()]
        except NoAnswerError as error:
            raise await self._diagnose(error) from error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def drain(self, expected: dict[int, int], timeout_s: float, *, may_repeat: bool = False) -> None:
        """Wait until every subscription has received all messages, or none has come for `timeout_s`.

        A message that still comes is not lost, however late it is; the audit finds those that are missing.
        `may_repeat`: messages may come more than once.
        """

        def is_complete(received: dict[tuple[int, int], int]) -> bool:
            return all(count >= expected.get(destination, 0) for (destination, _), count in received.items())

        deadline, moved_before = time.monotonic() + timeout_s, -1
        while time.monotonic() < deadline:
            received, moved = await self._progress()
            if moved > moved_before:
                deadline, moved_before = time.monotonic() + timeout_s, moved
                if is_complete(received) and (not may_repeat or is_complete(await self._distinct(received))):
                    return
            await asyncio.sleep(_POLL_SECONDS)

    async def _distinct(self, subscriptions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Messages received, each once, by destination and subscription."""
        answers = await asyncio.gather(*(agent.ask("report_received") for agent in self.agents))
        counts, covered = dict.fromkeys(subscriptions, 0), (0, 0, 0, 0)
        ranges = (row for answer in answers for row in check_answer(answer)["ranges"])
        for destination, subscription, producer, first, end in sorted(ranges):
            begin = max(covered, (destination, subscription, producer, first))
            covered = max(begin, (destination, subscription, producer, end))
            counts[destination, subscription] += covered[3] - begin[3]
        return counts

    async def finish(self) -> list[JsonObject]:
        answers = await asyncio.gather(*(agent.ask("finish") for agent in self.agents))
        return [check_answer(answer) for answer in answers]

    async def abort(self) -> None:
        """Let the agents write their events; one that does not answer is ignored."""
        answers = (agent.ask("finish", timeout_s=_FINISH_SECONDS) for agent in self.agents)
        await asyncio.gather(*answers, return_exceptions=True)

    async def _diagnose(self, error: NoAnswerError) -> Exception:
        """Whether the agent or the system hangs: agents that still report progress wait for the system."""
        try:
            async with asyncio.timeout(_PROGRESS_SECONDS):
                await self._progress()
        except (TimeoutError, AgentLostError):
            return error
        except BrokenRunError as broken:
            return broken
        return BrokenRunError(f"the system hangs: {error}")

    async def _progress(self) -> tuple[dict[tuple[int, int], int], int]:
        """Messages received, by destination and subscription; and all messages sent and received."""
        received: dict[tuple[int, int], int] = {}
        moved = 0
        for answer in await asyncio.gather(*(agent.ask("report_progress") for agent in self.agents)):
            moved += check_answer(answer)["moved"]
            for destination, subscription, count in answer["received"]:
                received[destination, subscription] = received.get((destination, subscription), 0) + count
        return received, moved

    async def _wait_idle(self, idle_timeout_s: float) -> None:
        """Returns when no message has moved for so long. It ignores errors: the answer to `play` reports them."""
        deadline, moved_before = time.monotonic() + idle_timeout_s, -1
        while time.monotonic() < deadline:
            await asyncio.sleep(_PROGRESS_POLL_SECONDS)
            try:
                _, moved = await self._progress()
            except (BrokenRunError, AgentLostError):
                continue
            if moved > moved_before:
                deadline, moved_before = time.monotonic() + idle_timeout_s, moved


def sent_by_destination(answers: Sequence[JsonObject]) -> dict[int, int]:
    sent: dict[int, int] = {}
    for answer in answers:
        for destination, messages in answer["sent"].items():
            sent[int(destination)] = sent.get(int(destination), 0) + messages
    return sent


def _is_only_active(assignment: Assignment) -> bool:
    return all(role.role in ACTIVE for role in assignment.roles)
