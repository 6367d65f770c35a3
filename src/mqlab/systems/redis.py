"""Redis. It syncs its append-only file (AOF) before it answers a command.

It never disconnects a slow subscriber: it keeps its messages in memory, without a limit.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Debian, Part, path_of
from mqlab.systems.program import Launch, Program, ProgramRunning
from mqlab.wire import resp

_ASK_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 1 << 20


class RedisRunning(ProgramRunning):
    """Commands give the length of streams and delete them."""

    async def depth(self, queue: str) -> int:
        answer = await self._command(b"XLEN", queue.encode())
        if not isinstance(answer, int):
            raise SystemFailedError(f"redis does not report the depth of {queue}: {answer!r}")
        return answer

    async def remove(self, queue: str) -> None:
        if await self._command(b"DEL", queue.encode()) != 1:
            raise SystemFailedError(f"redis has no {queue}")

    async def _command(self, *arguments: bytes) -> resp.Value:
        self.check()
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.launch.ports["resp"])
                try:
                    writer.write(resp.command(*arguments))
                    received = b""
                    while not (values := resp.parse(np.frombuffer(received, dtype=np.uint8), _MAX_ANSWER_BYTES).values):
                        received += await reader.read(65536) or b"-the connection was closed\r\n"
                    return values[0]
                finally:
                    writer.close()
        except (OSError, TimeoutError, resp.MalformedRespError) as error:
            raise SystemFailedError(f"redis does not answer: {error}") from error


class Redis(Program):
    name = "redis"
    title = "Redis (pub/sub for topics, streams for queues)"
    version = "7.0.15"
    drivers = ("resp",)
    parts: tuple[Part, ...] = (Debian(("redis-server",), "redis-server"),)
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    start_seconds = 20.0
    running_class = RedisRunning

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        return Durability(
            syncs="before confirming" if synced else "later",
            persistent="in the log of commands (AOF)" + (", synced" if synced else "; synced every second"),
            confirmed="on a queue: like a persistent send, because Redis keeps all alike; on a topic: passed on to the "
            "connections of its subscribers, not kept for absent ones",
            acknowledged="on a queue: when the consumer asks for the next message (XACK, then XDEL from the stream) or "
            "commits; Redis does not redeliver messages of a dead consumer; on a topic: when Redis sends it",
            replies="on a channel of its connection (pub/sub); persistent ones on a list of each requester",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, configuration = ports(), folder / "redis.conf"
        sync = "always" if self.chosen("sync") == "yes" else "everysec"
        configuration.write_text(f"""\
bind 127.0.0.1
port {port}
dir "{folder}"
daemonize no
save ""
appendonly yes
appendfsync {sync}
no-appendfsync-on-rewrite no
auto-aof-rewrite-percentage 0
client-output-buffer-limit pubsub 0 0 0
client-output-buffer-limit normal 0 0 0
loglevel warning
""")
        return Launch(
            [str(path_of(self.parts[0])), str(configuration)],
            ports={"resp": port},
            addresses={"resp": f"tcp:127.0.0.1:{port}"},
        )
