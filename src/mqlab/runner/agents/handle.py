"""The conductor's side of an agent: start the process, tell it, hear it, and be sure that it ends."""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqlab.errors import MqlabError

# Answers to a clock question are taken this often; the quickest has the least doubt.
_CLOCK_QUESTIONS = 8
# Anything but a whole run is answered at once, or the agent is given up: also on a machine that is busy.
ANSWER_SECONDS = 30.0
_STOP_SECONDS = 5.0
_LONGEST_LINE = 1 << 24


class AgentLostError(MqlabError):
    """The agent's process is gone."""


class NoAnswerError(AgentLostError):
    """The agent's process is there, but did not do in time what it was asked for."""


class BrokenRunError(MqlabError):
    """The run cannot be completed."""


def check(answer: dict[str, Any]) -> dict[str, Any]:
    """An agent's answer. Raises BrokenRunError if it could not do what it was asked for."""
    if "error" in answer:
        raise BrokenRunError(answer["error"])
    return answer


class AgentProcess:
    """One agent. Commands may overlap only as far as the agent allows it."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self._process = process
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, number: int) -> "AgentProcess":
        # In a session of its own: Ctrl-C in a terminal is for the conductor, who decides what follows from it.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mqlab.runner.agents.process", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE, start_new_session=True,
        )  # fmt: skip
        return cls(number, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, do: str, timeout: float | None = None, **details: Any) -> dict[str, Any]:
        """Raises AgentLostError if it ends before it answers, or does not answer in time."""
        timeout = ANSWER_SECONDS if timeout is None else timeout
        if self._reading.done():
            raise AgentLostError(f"agent {self.number} has ended")
        self._last += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[self._last] = future
        assert self._process.stdin is not None
        line = json.dumps({"do": do, "n": self._last, **details}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            raise NoAnswerError(f"agent {self.number} did not answer '{do}' within {round(timeout, 1):g} s") from None
        except (OSError, RuntimeError) as error:  # uvloop says RuntimeError of a closed pipe
            raise AgentLostError(f"agent {self.number} does not listen any more") from error

    async def clock(self) -> tuple[int, int]:
        """What to add to its times to have ours, and how far that may be from the truth (both ns)."""
        ours = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        offset, error = 0, 2**62
        for _ in range(_CLOCK_QUESTIONS):
            before = time.monotonic_ns()
            answer = await self.ask("clock")
            after = time.monotonic_ns()
            if answer["boot"] == ours:
                # Processes of one machine read one clock: nothing to correct, and nothing to doubt.
                return 0, 0
            if after - before < 2 * error:
                offset, error = (before + after) // 2 - answer["t"], (after - before) // 2 + 1
        return offset, error

    async def lost(self) -> None:
        """Returns when the agent has ended, by whatever cause."""
        await asyncio.wait((self._reading,))

    async def stop(self) -> None:
        """Its stdin closed, it ends by itself; if not, it is made to."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                answer = json.loads(line)
                future = self._asked.pop(answer.pop("to"), None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError:
            # It talks nonsense: no answer of it can be trusted.
            with suppress(ProcessLookupError):
                self._process.kill()
            while await self._process.stdout.read(_LONGEST_LINE):
                pass
        finally:
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(AgentLostError(f"agent {self.number} ended in mid-run"))
