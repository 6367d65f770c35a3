"""An agent: a process that plays roles. Commands come as lines of JSON on its stdin, answers go to its stdout.

    prepare  -> connect, open the roles          -> {"ready": true}
    start    -> play from the given moment       -> {"sent": {destination: messages}, ...} when its producers are done
    received -> how much has arrived so far
    finish   -> stop, wherever it is             -> {"counted_received": n}; the events are written by then
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

from mqlab.drivers import DRIVERS, Connection, DriverError
from mqlab.events.folder import RunFolder
from mqlab.events.recorder import Recorder
from mqlab.load.assignment import Assignment, Role
from mqlab.load.roles import ConsumerRole, Log, ProducerRole, Timeline

_MOST_PREFETCH = 500_000


class Agent:
    def __init__(self) -> None:
        self._assignment: Assignment | None = None
        self._connections: list[Connection] = []
        self._producers: list[ProducerRole] = []
        self._consumers: list[ConsumerRole] = []
        self._playing: list[asyncio.Task[None]] = []
        self._recorder: Recorder | None = None
        self._commands: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "prepare": self._prepare,
            "start": self._start,
            "received": self._received,
            "finish": self._finish,
            "clock": self._clock,
        }

    async def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._commands[command["do"]](command)
        except DriverError as error:
            return {"error": str(error)}

    async def _clock(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"t": time.monotonic_ns(), "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}

    async def _prepare(self, command: dict[str, Any]) -> dict[str, Any]:
        assignment = self._assignment = Assignment.from_json(command["assignment"])
        self._connections, self._producers, self._consumers, self._playing = [], [], [], []
        folder = assignment.folder
        self._recorder = None if folder is None else Recorder(
            RunFolder(Path(folder)), assignment.run, assignment.agent
        )  # fmt: skip
        log: Log = self._recorder or _Nothing()
        # Consumers first: what is published to a topic before they are there, they would never get.
        for role in sorted(assignment.roles, key=lambda role: role.role):
            await self._open(role, assignment, log)
        return {"ready": True}

    async def _open(self, role: Role, assignment: Assignment, log: Log) -> None:
        point, name, transacted = assignment.point, assignment.destination(role), assignment.point.transaction > 0
        connection = await self._connection(assignment)
        if role.role == "producer":
            sender = await connection.sender(name, persistent=point.persistent, transacted=transacted)
            self._producers.append(ProducerRole(role, point, sender, log))
        else:
            # As many batches ahead as keep a consumer busy while its word travels, few enough to bound memory; whole
            # ones, or the system would have to split them.
            batches = max(1, min(max(16, 64 // point.batch), _MOST_PREFETCH // point.batch))
            room = batches * point.batch
            receiver = await connection.receiver(name, prefetch=room, transacted=transacted)
            self._consumers.append(ConsumerRole(role, point, receiver, log))

    async def _connection(self, assignment: Assignment) -> Connection:
        if assignment.point.connections == "each" or not self._connections:
            self._connections.append(await DRIVERS[assignment.driver](assignment.address).connect())
        return self._connections[-1]

    async def _start(self, command: dict[str, Any]) -> dict[str, Any]:
        assert self._assignment is not None
        timeline = Timeline.of(self._assignment.point, command["start"])
        self._playing = [asyncio.ensure_future(consumer.play(timeline)) for consumer in self._consumers]
        results = await asyncio.gather(
            *(producer.play(timeline) for producer in self._producers), return_exceptions=True
        )
        failed = [_words(result) for result in results if isinstance(result, BaseException)]
        sent: dict[int, int] = {}
        for producer in self._producers:
            at = producer.role.destination
            sent[at] = sent.get(at, 0) + producer.messages
        counted = sum(producer.counted for producer in self._producers)
        return {"sent": sent, "counted_sent": counted, **({"error": failed[0]} if failed else {})}

    async def _received(self, _: dict[str, Any]) -> dict[str, Any]:
        """Messages received so far, for each destination and subscription that has a consumer here."""
        counts: dict[tuple[int, int], int] = {}
        for consumer in self._consumers:
            key = (consumer.role.destination, consumer.role.subscription)
            counts[key] = counts.get(key, 0) + consumer.messages
        return {"received": [[*key, count] for key, count in counts.items()], **self._failure()}

    def _failure(self) -> dict[str, str]:
        failed = [consumer.failed for consumer in self._consumers if consumer.failed is not None]
        return {"error": _words(failed[0])} if failed else {}

    async def _finish(self, _: dict[str, Any]) -> dict[str, Any]:
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)
        for consumer in self._consumers:
            with suppress(DriverError):
                await consumer.close()
        try:
            for connection in self._connections:
                with suppress(DriverError):
                    await connection.close()
        finally:
            self._connections = []
            if self._recorder is not None:
                self._recorder.close()
                self._recorder = None
        counted = sum(consumer.counted for consumer in self._consumers)
        return {"counted_received": counted, **self._failure()}


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, DriverError) else f"{type(error).__name__}: {error}"


class _Nothing:
    """Records nothing: the other side of the comparison that tells what recording costs."""

    def sent(self, *row: int) -> None: ...
    def sent_freely(self, producer: int, *row: int) -> None: ...
    def accepted(self, producer: int) -> None: ...
    def received(self, *row: int) -> None: ...


async def _main() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    agent, working = Agent(), None
    # What is there now stays: no garbage collection in mid-run need look at it again.
    gc.freeze()
    while line := await reader.readline():
        command = json.loads(line)
        if working is not None and command["do"] == "finish":
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        elif working is not None:
            await working
        working = asyncio.ensure_future(_answer(agent, command))
    os._exit(0)  # the conductor is gone: nothing is left to tell anybody


async def _answer(agent: Agent, command: dict[str, Any]) -> None:
    answer = await agent.obey(command)
    sys.stdout.write(json.dumps({"to": command["n"], **answer}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_main())
