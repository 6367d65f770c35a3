"""Redis, with its log of commands (AOF) synced before a command is answered. A subscriber that is slow is never cut
off: what waits for it is kept in memory, without a limit."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Debian, Part, place
from mqlab.systems.program import Launch, Program, ProgramRunning
from mqlab.wire import resp

_ASK_SECONDS: Final = 10.0
_LONGEST_ANSWER: Final = 1 << 20


class RedisRunning(ProgramRunning):
    async def depth(self, queue: str) -> int:
        answer = await self._ask(b"XLEN", queue.encode())
        if not isinstance(answer, int):
            raise SystemFailedError(f"redis cannot tell the depth of {queue}: {answer!r}")
        return answer

    async def remove(self, queue: str) -> None:
        if await self._ask(b"DEL", queue.encode()) != 1:
            raise SystemFailedError(f"redis has no {queue}")

    async def _ask(self, *words: bytes) -> resp.Value:
        self.check()
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.launch.ports["resp"])
                try:
                    writer.write(resp.command(*words))
                    said = b""
                    while not (found := resp.parse(np.frombuffer(said, dtype=np.uint8), _LONGEST_ANSWER).values):
                        said += await reader.read(65536) or b"-the connection was closed\r\n"
                    return found[0]
                finally:
                    writer.close()
        except (OSError, TimeoutError, resp.MalformedRespError) as error:
            raise SystemFailedError(f"redis does not answer: {error}") from error


class Redis(Program):
    name = "redis"
    title = "Redis (pub/sub for topics, streams for queues)"
    version = "7.0.15"
    drivers = ("resp",)
    parts: ClassVar[tuple[Part, ...]] = (Debian(("redis-server",), "redis-server"),)
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    start_seconds = 20.0
    running_class = RedisRunning

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        return Durability(
            syncs="before confirming" if synced else "later",
            persistent="in the log of commands (AOF)" + (", synced" if synced else "; synced every second"),
            confirmed="on a queue: as a persistent one, since Redis keeps all of them alike; on a topic: passed on to "
            "the connections of its subscribers, and who is not there never gets it",
            acknowledged="on a queue: when the consumer asks for the next (XACK, and gone from the stream by XDEL), or "
            "with its commit; what a consumer that died had is not given to others; on a topic: when it is sent, by "
            "nobody",
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
            [str(place(self.parts[0])), str(configuration)],
            ports={"resp": port},
            addresses={"resp": f"tcp:127.0.0.1:{port}"},
        )
