"""HornetQ, embedded in a small Java server, since its jars have none. It syncs its journal before it confirms.

It pages messages that do not fit its memory to disk, and drops nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Jars, Java, Part, path_of
from mqlab.systems.program import Launch, Program, ProgramRunning

# Java compiles the source file at the start.
_SERVER: Final = Path(__file__).with_name("java") / "HornetQ.java"
_OPENED_PACKAGES: Final = ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.misc")
_ASK_SECONDS: Final = 10.0


class HornetQRunning(ProgramRunning):
    """The server answers administration commands on a port of its own."""

    async def depth(self, queue: str) -> int:
        answer = await self._command("depth", _queue_name(queue))
        if not answer.isdigit():
            raise SystemFailedError(f"hornetq has no {queue}")
        return int(answer)

    async def remove(self, queue: str) -> None:
        if await self._command("remove", _queue_name(queue)) != "true":
            raise SystemFailedError(f"hornetq could not remove {queue}")

    async def _command(self, *words: str) -> str:
        self.check()
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.launch.ports["administration"])
                try:
                    writer.write(" ".join(words).encode() + b"\n")
                    return (await reader.readline()).decode().strip()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            raise SystemFailedError(f"hornetq does not answer: {error}") from error


class HornetQ(Program):
    name = "hornetq"
    title = "HornetQ"
    compiles = True
    version = "2.4.9.Final"
    drivers = ("jms",)
    parts: tuple[Part, ...] = (
        Java(),
        Jars(
            (f"org.hornetq:hornetq-jms-server:{version}", f"org.hornetq:hornetq-jms-client:{version}"),
            exclusions=("jboss:jnpserver", "org.jboss.naming:jnpserver"),
        ),
    )
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "1G", "replies": "standing"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no"), "replies": ("standing", "each")}
    running_class = HornetQRunning

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        standing = self.chosen("replies") == "standing"
        return Durability(
            syncs="before confirming" if synced else "never",
            persistent=f"in the journal{', synced' if synced else ', not synced'}; a confirmed batch is a transaction",
            confirmed="in the queues, in memory; a confirmed batch is a transaction",
            acknowledged="auto: at delivery to the consumer; else when the consumer acknowledges or commits",
            replies="on a queue shared by all, by a selector for the correlation id: "
            + ("one consumer for each requester" if standing else "a new consumer for each reply"),
        )

    @property
    def jars(self) -> str:
        return str(path_of(self.parts[1]))

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, administration, jars = ports(), ports(), path_of(self.parts[1])
        synced = "true" if self.chosen("sync") == "yes" else "false"
        return Launch(
            [
                str(path_of(self.parts[0])), "-Xms64M", f"-Xmx{self.chosen('memory')}",
                *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES), "-cp", f"{jars}/*",
                str(_SERVER), str(port), str(administration), str(folder / "data"), synced,
            ],
            # The server opens the second port last.
            ports={"server": port, "administration": administration},
            addresses={"jms": f"tcp:127.0.0.1:{port}"},
            options={"jms": {"provider": "hornetq", "jars": self.jars, "replies": self.chosen("replies")}},
        )  # fmt: skip


def _queue_name(name: str) -> str:
    """HornetQ's name for a JMS queue; that of a durable subscription consists of the client id and its name."""
    domain, _, short = name.partition(":")
    return f"{short}.{short}" if domain == "subscription" else f"jms.queue.{short}"
