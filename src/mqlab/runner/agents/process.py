"""An agent: a process that plays roles. It reads commands as lines of JSON and answers them, over stdin and stdout.

An agent on another machine does the same over a connection (mqlab.cluster).

command          action                                            answer
host             start a broker in this process                    {"address": ...}
preload          put messages on queues that no consumer receives  {}
probe            send persistent messages one by one               {"times": [[sent, confirmed], ...]}, wall clock
prepare          connect, open the roles                           {"ready": true}
fill             play the active roles before the passive ones     {"sent": {destination: messages}, ...}
start            play all roles from the given moment on           {"sent": {destination: messages}, ...}
report_progress  (also while roles play)                           {"received": [...], "moved": messages}
report_resources (also while roles play)                           {"cpu_seconds": seconds, "rss": bytes, ...}
report_received  (in a run with faults)                            {"ranges": [[destination, ...], ...]}
finish           stop all roles, write the events                  {"counted_received": messages, ...}
stop_hosting     stop the broker in this process                   {}
check_folder     write a file of this name                         {}
clock                                                              {"t": ns}
"""

import asyncio
import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import psutil
import uvloop

from mqlab.drivers import DRIVERS, DriverError, ReceiverOptions
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.hidden_pandas import hide_pandas
from mqlab.json_values import JsonObject
from mqlab.runner.agents.assignment import Assignment
from mqlab.runner.agents.bodies import BodyMaker
from mqlab.runner.agents.channel import MAX_LINE_BYTES
from mqlab.runner.agents.session import AgentSession
from mqlab.runner.sampler import process_columns
from mqlab.runner.timeline import RoleCounters, Timeline
from mqlab.systems import SYSTEMS, Hosted, SystemFailedError

# The producer of preloaded messages. No role has this number, so the audit reports one that arrives.
_PRELOAD_PRODUCER = 2**31 - 1
_PROBE_BYTES = 1024
# How often the events of a run are written that somebody follows.
_ROLL_SECONDS = 3.0
# From malloc.h. The C library takes no larger block from its heap.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MAX_HEAP_BLOCK = 32 * 1024 * 1024
_KEPT_BYTES = 64 * 1024 * 1024
# Commands that are executed while another one is.
_AT_ONCE = ("report_progress", "report_resources")


class Agent:
    def __init__(self) -> None:
        self._session: AgentSession | None = None
        self._recorder: Recorder | None = None
        self._rolling: asyncio.Future[None] | None = None
        self._hosted: Hosted | None = None
        self._commands: dict[str, Callable[[JsonObject], Awaitable[JsonObject]]] = {
            "host": self._host,
            "preload": self._preload,
            "probe": self._probe,
            "prepare": self._prepare,
            "fill": self._fill,
            "start": self._start,
            "report_progress": self._report_progress,
            "report_resources": self._report_resources,
            "report_received": self._report_received,
            "finish": self._finish,
            "stop_hosting": self._stop_hosting,
            "check_folder": self._check_folder,
            "clock": self._clock,
        }

    async def execute(self, command: JsonObject) -> JsonObject:
        try:
            return await self._commands[command["command"]](command)
        except (DriverError, SystemFailedError) as error:
            return {"error": str(error)}
        except OSError as error:
            # The events cannot be written, or the process has no file descriptors left.
            return {"error": f"{error.filename or 'the agent'}: {error.strerror or error}"}

    async def _clock(self, _: JsonObject) -> JsonObject:
        return {"t": time.monotonic_ns()}

    async def _check_folder(self, command: JsonObject) -> JsonObject:
        Path(command["file"]).write_text("")
        return {}

    async def _host(self, command: JsonObject) -> JsonObject:
        await self._stop_hosting(command)
        system = SYSTEMS[command["system"]](command["settings"])
        self._hosted = await system.host(Path(command["folder"]), command["name"])
        return {"address": self._hosted.address}

    async def _stop_hosting(self, _: JsonObject) -> JsonObject:
        hosted, self._hosted = self._hosted, None
        if hosted is not None:
            await hosted.close()
        return {}

    async def _preload(self, command: JsonObject) -> JsonObject:
        bodies = BodyMaker(_PRELOAD_PRODUCER, command["size"], command["messages"]).make(0, command["messages"])
        driver = DRIVERS[command["driver"]](command["address"], command["options"])
        connection = await driver.connect("Preload")
        try:
            for queue in command["queues"]:
                await connection.preload(queue, bodies, persistent=command["persistent"])
        finally:
            await connection.close()
        return {}

    async def _probe(self, command: JsonObject) -> JsonObject:
        arguments = {key: command[key] for key in ("driver", "address", "options", "destination", "messages")}
        return {"times": await probe(**arguments)}

    async def _prepare(self, command: JsonObject) -> JsonObject:
        assignment = Assignment.from_json(command["assignment"])
        folder = None if assignment.folder is None else RunFolder(Path(assignment.folder))
        self._recorder = Recorder(folder, assignment.run, assignment.agent)
        self._session = AgentSession(assignment, self._recorder)
        await self._session.open()
        return {"ready": True}

    async def _fill(self, command: JsonObject) -> JsonObject:
        assert self._session is not None
        return self._sent(await self._session.fill(Timeline.preload(command["start"])))

    async def _start(self, command: JsonObject) -> JsonObject:
        assert self._session is not None
        point = self._session.assignment.point
        # Until the end of the run: passive roles receive when the active ones, or all of another agent, are done.
        self._rolling = asyncio.ensure_future(self._roll_events())
        return self._sent(await self._session.play(Timeline.of(point, command["start"])))

    async def _roll_events(self) -> None:
        """Let a follower of the run see the events so far."""
        while self._recorder is not None:
            await asyncio.sleep(_ROLL_SECONDS)
            self._recorder.roll()

    def _sent(self, errors: list[BaseException]) -> JsonObject:
        """Messages sent to each destination, and the first error."""
        assert self._session is not None
        sent: dict[int, int] = {}
        for active in self._session.active:
            destination = active.role.destination
            sent[destination] = sent.get(destination, 0) + active.counters.sent
        return {"sent": sent, **({"error": _describe(errors[0])} if errors else {})}

    async def _report_progress(self, _: JsonObject) -> JsonObject:
        """Messages received so far, by destination and subscription; and all messages sent and received."""
        counts: dict[tuple[int, int], int] = {}
        for passive in [] if self._session is None else self._session.passive:
            key = (passive.role.destination, passive.role.subscription)
            counts[key] = counts.get(key, 0) + passive.counters.received
        moved = sum(counters.sent + counters.received for counters in self._counters())
        return {"received": [[*key, count] for key, count in counts.items()], "moved": moved, **self._failure()}

    async def _report_resources(self, _: JsonObject) -> JsonObject:
        return process_columns(psutil.Process())

    async def _report_received(self, _: JsonObject) -> JsonObject:
        """The messages that came, each once: what `ReceivedNumbers.ranges` returns."""
        received = None if self._session is None else self._session.received
        return {"ranges": [] if received is None else received.ranges()}

    def _counters(self) -> list[RoleCounters]:
        return [] if self._session is None else self._session.counters()

    def _failure(self) -> dict[str, str]:
        failure = None if self._session is None else self._session.first_failure()
        return {} if failure is None else {"error": _describe(failure)}

    async def _finish(self, _: JsonObject) -> JsonObject:
        try:
            if self._session is not None:
                await self._session.close()
        finally:
            if self._rolling is not None:
                self._rolling.cancel()
            if self._recorder is not None:
                self._recorder.close()
                self._recorder = None
        roles = self._counters()
        return {
            "sent": sum(role.sent for role in roles),
            "received": sum(role.received for role in roles),
            "counted_sent": sum(role.counted_sent for role in roles),
            "counted_received": sum(role.counted_received for role in roles),
            "counted_round_trips": sum(role.counted_round_trips for role in roles),
            "last_sent": max((role.t_last for role in roles if not role.received), default=0),
            "travel": [] if self._session is None else [vars(row) for row in self._session.travel()],
            "last_received": max((role.t_last for role in roles if role.received), default=0),
            **self._failure(),
        }


async def probe(
    driver: str, address: str, options: dict[str, str], destination: str, messages: int
) -> list[list[float]]:
    """Send each message when the one before is confirmed, and receive them all. Raises DriverError.

    Returns when each was sent and confirmed, by the wall clock.
    """
    connection = await DRIVERS[driver](address, options).connect("Probe")
    try:
        receiver = await connection.receiver(destination, ReceiverOptions(messages))
        sender = await connection.sender(destination, persistent=True, transacted=False)
        maker, times = BodyMaker(0, _PROBE_BYTES, 1), []
        for seq in range(messages):
            body = maker.make(seq, 1)
            sent = time.time()
            await sender.send(body, wait=True)
            times.append([sent, time.time()])
        await sender.close()
        while messages > 0:
            messages -= len((await receiver.receive()).bodies)
        await receiver.close()
    finally:
        await connection.close()
    return times


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, DriverError) else f"{type(error).__name__}: {error}"


class CommandProtocol(asyncio.StreamReaderProtocol):
    """Calls `lost` when the conductor is gone: the agent ends at once, whatever it is waiting for."""

    def __init__(self, reader: asyncio.StreamReader, lost: Callable[[], object]) -> None:
        super().__init__(reader)
        self._lost = lost

    def eof_received(self) -> bool:
        return False  # close the other direction too

    def connection_lost(self, _: Exception | None) -> None:
        self._lost()


async def serve(reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
    """Execute the conductor's commands until it closes the channel."""
    agent, working = Agent(), None
    # Objects that exist now stay: garbage collections in mid-run need not scan them.
    gc.freeze()
    while line := await reader.readline():
        command = json.loads(line)
        if command["command"] in _AT_ONCE:
            await _answer(agent, command, write)
            continue
        if working is not None and command["command"] == "finish":
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        elif working is not None:
            await working
        working = asyncio.ensure_future(_answer(agent, command, write))


async def _answer(agent: Agent, command: JsonObject, write: Callable[[bytes], None]) -> None:
    answer = await agent.execute(command)
    write((json.dumps({"reply_to": command["id"], **answer}) + "\n").encode())


async def _serve_stdin() -> None:
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    protocol = CommandProtocol(reader, lambda: os._exit(0))
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    await serve(reader, _write_stdout)


def _write_stdout(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def prepare_process() -> None:
    """Prepare this process for the commands of a conductor."""
    hide_pandas()
    _use_batch_scheduling()
    _keep_freed_memory()


def _use_batch_scheduling() -> None:
    """An agent that wakes up does not preempt the system under test on the same machine."""
    # Without the permission for this, the agent runs with the normal policy.
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _keep_freed_memory() -> None:
    """Let the C library use the memory of the last messages for the next ones.

    By default it returns large blocks to the system, which clears each page again before its next use: with 1 KiB a
    message that was a third of a producer's processor time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAX_HEAP_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


if __name__ == "__main__":
    prepare_process()
    uvloop.run(_serve_stdin())
