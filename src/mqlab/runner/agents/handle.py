"""The conductor's handle on an agent: starts its process, sends it commands, reads its answers, and ends it."""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject

# An agent's clock is read this often; the quickest answer has the smallest error.
_CLOCK_READINGS = 8
# An agent answers every command but `start` and `fill` at once; this is enough on a busy machine too.
ANSWER_SECONDS = 30.0
_STOP_SECONDS = 5.0
_MAX_LINE_BYTES = 1 << 24


class AgentLostError(MqlabError):
    """The agent's process has ended."""


class NoAnswerError(AgentLostError):
    """The agent's process runs, but did not answer a command in time."""


class BrokenRunError(MqlabError):
    """The run cannot be completed."""


def check_answer(answer: JsonObject) -> JsonObject:
    """The answer. Raises BrokenRunError if the agent could not execute the command."""
    if "error" in answer:
        raise BrokenRunError(answer["error"])
    return answer


class AgentProcess:
    """One agent. While a command runs, only `report_progress` and `finish` are executed at once."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self._process = process
        self._pending: dict[int, asyncio.Future[JsonObject]] = {}
        self._last_id = 0
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def start(cls, number: int) -> "AgentProcess":
        # In its own session: Ctrl-C in a terminal reaches only the conductor, which decides what to do.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mqlab.runner.agents.process", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=_MAX_LINE_BYTES, start_new_session=True,
        )  # fmt: skip
        return cls(number, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, command: str, timeout_s: float | None = None, **arguments: object) -> JsonObject:
        """The agent's answer. Raises AgentLostError if it ends first, or does not answer in time."""
        timeout_s = ANSWER_SECONDS if timeout_s is None else timeout_s
        if self._reading.done():
            raise AgentLostError(f"agent {self.number} has ended")
        self._last_id += 1
        future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = future
        assert self._process.stdin is not None
        line = json.dumps({"command": command, "id": self._last_id, **arguments}) + "\n"
        try:
            self._process.stdin.write(line.encode())
            await self._process.stdin.drain()
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise NoAnswerError(
                f"agent {self.number} did not answer '{command}' within {round(timeout_s, 1):g} s"
            ) from None
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError for a closed pipe
            raise AgentLostError(f"agent {self.number} no longer reads its commands") from error

    async def clock(self) -> tuple[int, int]:
        """The offset of its clock to ours, and the largest possible error of that (both ns)."""
        our_boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        offset, error = 0, 2**62
        for _ in range(_CLOCK_READINGS):
            before = time.monotonic_ns()
            answer = await self.ask("clock")
            after = time.monotonic_ns()
            if answer["boot"] == our_boot:
                # Processes of one machine read the same clock.
                return 0, 0
            if after - before < 2 * error:
                offset, error = (before + after) // 2 - answer["t"], (after - before) // 2 + 1
        return offset, error

    async def wait_lost(self) -> None:
        """Returns when the agent has ended, for any reason."""
        await asyncio.wait((self._reading,))

    async def stop(self) -> None:
        """Close its stdin, which ends it; kill it if that does not help."""
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
                future = self._pending.pop(answer.pop("reply_to"), None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError:
            # A line that is not JSON: none of its answers can be trusted.
            with suppress(ProcessLookupError):
                self._process.kill()
            while await self._process.stdout.read(_MAX_LINE_BYTES):
                pass
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(AgentLostError(f"agent {self.number} ended in mid-run"))
