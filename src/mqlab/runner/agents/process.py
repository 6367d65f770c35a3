"""An agent: a process that plays roles. Commands come as lines of JSON on its stdin, answers go to its stdout.

host     -> start a broker in this process   -> {"address": ...}
preload  -> put messages that nobody takes, by a client that leaves
probe    -> persistent messages one by one    -> {"times": [[sent, confirmed], ...]} by the wall clock
prepare  -> connect, open the roles          -> {"ready": true}
fill     -> send before anybody receives     -> {"sent": {destination: messages}, ...}
start    -> play from the given moment       -> {"sent": {destination: messages}, ...} when its producers are done
received -> how much has arrived so far; also while it plays
finish   -> stop, wherever it is             -> {"counted_received": n, ...}; the events are written by then
leave    -> stop the broker it hosts
clock    -> its time now
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvloop

from mqlab.drivers import DRIVERS, DriverError
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.runner.agents.assignment import Assignment
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.session import AgentSession
from mqlab.runner.checks.probe import probe
from mqlab.runner.timeline import Nothing, Timeline
from mqlab.systems import SYSTEMS, Hosted, SystemFailedError

# Who sent the messages that nobody takes: if one ever arrives, it is one that nobody sent.
_NOBODY = 2**31 - 1

Said = dict[str, Any]


class Agent:
    def __init__(self) -> None:
        self._stage: AgentSession | None = None
        self._recorder: Recorder | None = None
        self._hosted: Hosted | None = None
        self._commands: dict[str, Callable[[Said], Awaitable[Said]]] = {
            "host": self._host,
            "preload": self._preload,
            "probe": self._probe,
            "prepare": self._prepare,
            "fill": self._fill,
            "start": self._start,
            "received": self._received,
            "finish": self._finish,
            "leave": self._leave,
            "clock": self._clock,
        }

    async def obey(self, command: Said) -> Said:
        try:
            return await self._commands[command["do"]](command)
        except (DriverError, SystemFailedError) as error:
            return {"error": str(error)}
        except OSError as error:
            # The records cannot be written, or there are no more descriptors.
            return {"error": f"{error.filename or 'the agent'}: {error.strerror or error}"}

    async def _clock(self, _: Said) -> Said:
        return {"t": time.monotonic_ns(), "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}

    async def _host(self, command: Said) -> Said:
        await self._leave(command)
        system = SYSTEMS[command["system"]](command["settings"])
        self._hosted = await system.host(Path(command["folder"]), command["name"])
        return {"address": self._hosted.address}

    async def _leave(self, _: Said) -> Said:
        hosted, self._hosted = self._hosted, None
        if hosted is not None:
            await hosted.close()
        return {}

    async def _preload(self, command: Said) -> Said:
        bodies = BodyMaker(_NOBODY, command["size"], command["messages"]).make(0, command["messages"])
        driver = DRIVERS[command["driver"]](command["address"], command["options"])
        connection = await driver.connect("Preload")
        try:
            for queue in command["queues"]:
                await connection.preload(queue, bodies, persistent=command["persistent"])
        finally:
            await connection.close()
        return {}

    async def _probe(self, command: Said) -> Said:
        asked = {key: command[key] for key in ("driver", "address", "options", "destination", "messages")}
        return {"times": await probe(**asked)}

    async def _prepare(self, command: Said) -> Said:
        assignment = Assignment.from_json(command["assignment"])
        folder = assignment.folder
        self._recorder = None if folder is None else Recorder(
            RunFolder(Path(folder)), assignment.run, assignment.agent
        )  # fmt: skip
        self._stage = AgentSession(assignment, self._recorder or Nothing())
        await self._stage.open()
        return {"ready": True}

    async def _fill(self, command: Said) -> Said:
        assert self._stage is not None
        return self._sent(await self._stage.fill(Timeline.before(command["start"])))

    async def _start(self, command: Said) -> Said:
        assert self._stage is not None
        point = self._stage.assignment.point
        return self._sent(await self._stage.play(Timeline.of(point, command["start"])))

    def _sent(self, failed: list[BaseException]) -> Said:
        """Messages for each destination that a producer here sends to."""
        assert self._stage is not None
        sent: dict[int, int] = {}
        for one in self._stage.active:
            at = one.role.destination
            sent[at] = sent.get(at, 0) + one.tally.sent
        return {"sent": sent, **({"error": _words(failed[0])} if failed else {})}

    async def _received(self, _: Said) -> Said:
        """Messages received so far, for each destination and subscription that has a consumer here; all in all."""
        counts: dict[tuple[int, int], int] = {}
        tallies = [] if self._stage is None else self._stage.tallies()
        for one in [] if self._stage is None else self._stage.passive:
            key = (one.role.destination, one.role.subscription)
            counts[key] = counts.get(key, 0) + one.tally.received
        moved = sum(tally.sent + tally.received for tally in tallies)
        return {"received": [[*key, count] for key, count in counts.items()], "moved": moved, **self._failure()}

    def _failure(self) -> dict[str, str]:
        failed = None if self._stage is None else self._stage.failed()
        return {} if failed is None else {"error": _words(failed)}

    async def _finish(self, _: Said) -> Said:
        try:
            if self._stage is not None:
                await self._stage.close()
        finally:
            if self._recorder is not None:
                self._recorder.close()
                self._recorder = None
        tallies = [] if self._stage is None else self._stage.tallies()
        return {
            "counted_sent": sum(tally.counted_sent for tally in tallies),
            "counted_received": sum(tally.counted_received for tally in tallies),
            "counted_round_trips": sum(tally.counted_round_trips for tally in tallies),
            "last_sent": max((tally.last for tally in tallies if not tally.received), default=0),
            "last_received": max((tally.last for tally in tallies if tally.received), default=0),
            **self._failure(),
        }


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, DriverError) else f"{type(error).__name__}: {error}"


class _CommandProtocol(asyncio.StreamReaderProtocol):
    def connection_lost(self, _: Exception | None) -> None:
        os._exit(0)  # the conductor is gone: nothing is left to tell anybody, whatever is being waited for


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: _CommandProtocol(reader), sys.stdin)
    agent, working = Agent(), None
    # What is there now stays: no garbage collection in mid-run need look at it again.
    gc.freeze()
    while line := await reader.readline():
        command = json.loads(line)
        if command["do"] == "received":
            await _answer(agent, command)
            continue
        if working is not None and command["do"] == "finish":
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        elif working is not None:
            await working
        working = asyncio.ensure_future(_answer(agent, command))


async def _answer(agent: Agent, command: Said) -> None:
    answer = await agent.obey(command)
    sys.stdout.write(json.dumps({"to": command["n"], **answer}) + "\n")
    sys.stdout.flush()


def _give_way() -> None:
    """One who wakes does not take the processor from whom it measures: the system under test, on the same machine."""
    # Where the machine does not let it, it goes on as it is.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


if __name__ == "__main__":
    _give_way()
    uvloop.run(_main())
