"""The conductor's handle on an agent: sends it commands, reads its answers, measures its clock, and ends it."""

import asyncio
import json

from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.runner.agents.channel import MAX_LINE_BYTES, Channel, Place
from mqlab.runner.agents.clock import ClockOffset, measure_offset

# An agent answers every command but `start` and `fill` at once; this is enough on a busy machine too.
ANSWER_SECONDS = 30.0


class AgentLostError(MqlabError):
    """The agent has ended, or its connection has."""


class NoAnswerError(AgentLostError):
    """The agent runs, but did not answer a command in time."""


class BrokenRunError(MqlabError):
    """The run cannot be completed."""


def check_answer(answer: JsonObject) -> JsonObject:
    """The answer. Raises BrokenRunError if the agent could not execute the command."""
    if "error" in answer:
        raise BrokenRunError(answer["error"])
    return answer


class AgentHandle:
    """One agent. While a command runs, only `report_progress`, `report_resources` and `finish` are executed at once."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        # As `measure_clock` found it last.
        self.clock = ClockOffset()
        self._channel = channel
        self._pending: dict[int, asyncio.Future[JsonObject]] = {}
        self._last_id = 0
        self._reading = asyncio.ensure_future(self._read())

    @property
    def name(self) -> str:
        return f"agent {self.number} on {self.host}" if self.host else f"agent {self.number}"

    @property
    def host(self) -> str:
        """The name of its machine; "" if the conductor started it as a process of its own."""
        return self._channel.host

    @property
    def pid(self) -> int:
        """It has a meaning only if the agent is here."""
        return self._channel.pid

    @property
    def is_here(self) -> bool:
        """Whether the conductor can see its process."""
        return self._channel.place.has_processes_of(Place.here())

    @property
    def has_loopback(self) -> bool:
        """Whether it reaches what listens on the conductor's loopback."""
        return self._channel.place.has_loopback_of(Place.here())

    async def ask(self, command: str, timeout_s: float | None = None, **arguments: object) -> JsonObject:
        """The agent's answer. Raises AgentLostError if it ends first, or does not answer in time."""
        timeout_s = ANSWER_SECONDS if timeout_s is None else timeout_s
        if self._reading.done():
            raise AgentLostError(f"{self.name} has ended")
        self._last_id += 1
        future: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._pending[self._last_id] = future
        line = json.dumps({"command": command, "id": self._last_id, **arguments}) + "\n"
        try:
            self._channel.writer.write(line.encode())
            await self._channel.writer.drain()
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise NoAnswerError(f"{self.name} did not answer '{command}' within {round(timeout_s, 1):g} s") from None
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError for a closed pipe
            raise AgentLostError(f"{self.name} no longer reads its commands") from error

    async def measure_clock(self) -> ClockOffset:
        """Processes of one machine read the same clock; any other clock is compared with ours."""
        if self._channel.place.has_clock_of(Place.here()):
            return ClockOffset()

        async def read_clock() -> int:
            return int((await self.ask("clock"))["t"])

        self.clock = await measure_offset(read_clock)
        return self.clock

    async def wait_lost(self) -> None:
        """Returns when the agent has ended, for any reason."""
        await asyncio.wait((self._reading,))

    async def stop(self) -> None:
        """Let it end."""
        await self._channel.close()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        reader = self._channel.reader
        try:
            while line := await reader.readline():
                answer = json.loads(line)
                future = self._pending.pop(answer.pop("reply_to"), None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError:
            # A line that is not JSON: none of its answers can be trusted.
            self._channel.sever()
            while await reader.read(MAX_LINE_BYTES):
                pass
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(AgentLostError(f"{self.name} ended in mid-run"))
