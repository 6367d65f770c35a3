"""Eclipse OpenMQ (once Sun's). It syncs its file store before it confirms persistent sends.

Full destinations block producers instead of refusing messages, and transactions may be as large as the lab's.
"""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from mqlab.study.language.faults import FaultTarget
from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Archive, Java, Part, path_of
from mqlab.systems.program import Launch, Program, ProgramRunning

_BROKER: Final = "com.sun.messaging.jmq.jmsserver.Broker"
_ADMINISTRATION: Final = "com.sun.messaging.jmq.admin.apps.broker.BrokerCmd"
_PROPERTIES: Final = {
    "imq.hostname": "127.0.0.1",
    "imq.service.activelist": "jms,admin",
    "imq.jms.max_threads": "4000",
    "imq.autocreate.queue.maxNumActiveConsumers": "-1",
    "imq.autocreate.destination.maxNumProducers": "-1",
    "imq.autocreate.destination.maxNumMsgs": "1000000",
    "imq.autocreate.destination.maxTotalMsgBytes": "256m",
    "imq.autocreate.destination.maxBytesPerMsg": "-1",
    "imq.autocreate.destination.limitBehavior": "FLOW_CONTROL",
    "imq.transaction.producer.maxNumMsgs": "1000000",
    "imq.transaction.consumer.maxNumMsgs": "1000000",
}
_COMMAND_SECONDS: Final = 30.0


class OpenMQRunning(ProgramRunning):
    """Its own command line tool administers it, which takes a second for each command."""

    async def depth(self, queue: str) -> int:
        domain, _, name = queue.partition(":")
        if domain == "subscription":
            # A subscription has the name of its client.
            output = await self._command("list", "dur")
            match = re.search(rf"^{re.escape(name)}\s+\S+\s+\S+\s+\S+\s+(\d+)\s", output, re.MULTILINE)
        else:
            output = await self._command("query", "dst", "-t", "q", "-n", _queue_name(name))
            match = re.search(r"Current Number of Messages\s+Actual\s+(\d+)", output)
        if match is None:
            raise SystemFailedError(f"openmq does not report the depth of {queue}")
        return int(match.group(1))

    async def remove(self, queue: str) -> None:
        await self._command("destroy", "dst", "-t", "q", "-n", _queue_name(queue.partition(":")[2]))

    async def _command(self, *arguments: str) -> str:
        self.check()
        launch, home = self.launch, path_of(self.system.parts[1])
        assert launch.directory is not None
        command = [
            str(path_of(self.system.parts[0])), "-cp", str(home / "lib" / "imqadmin.jar"), f"-Dimq.home={home}",
            f"-Dimq.varhome={launch.directory}", f"-Dimq.etchome={home / 'etc'}", _ADMINISTRATION, *arguments, "-f",
            "-b", f"127.0.0.1:{launch.ports['jms']}", "-u", "admin", "-passfile", str(launch.directory / "passfile"),
        ]  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _COMMAND_SECONDS)
        except TimeoutError:
            raise SystemFailedError(f"openmq did not answer within {_COMMAND_SECONDS:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode(errors="replace")
        if process.returncode != 0:
            raise SystemFailedError(f"openmq: {' '.join(arguments)} failed: {' '.join(text.split())[-300:]}")
        return text


class OpenMQ(Program):
    name = "openmq"
    title = "Eclipse OpenMQ"
    compiles = True
    version = "6.5.1"
    drivers = ("jms",)
    lacks_faults: ClassVar[Mapping[FaultTarget, str]] = {
        **Program.lacks_faults,
        "line": "its port mapper sends clients to another port",
    }
    parts: tuple[Part, ...] = (Java(), Archive(f"org.glassfish.mq:mq-distribution:{version}:zip"))
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "1G", "replies": "standing"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no"), "replies": ("standing", "each")}
    running_class = OpenMQRunning

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        standing = self.chosen("replies") == "standing"
        return Durability(
            syncs="before confirming" if synced else "never",
            persistent=f"in the file store{', synced' if synced else ', not synced'}",
            confirmed="in the queues, in memory",
            acknowledged="auto: at delivery to the consumer, each answered by the broker; else when the consumer "
            "acknowledges or commits",
            replies="on a queue shared by all, by a selector for the correlation id: "
            + ("one consumer for each requester" if standing else "a new consumer for each reply"),
        )

    async def answers(self, launch: Launch) -> bool:
        # The port mapper lists the services that are ready.
        reader, writer = await asyncio.open_connection("127.0.0.1", launch.ports["jms"])
        try:
            return b"\njms tcp" in await reader.read()
        finally:
            writer.close()

    @property
    def jars(self) -> str:
        library = path_of(self.parts[1]) / "lib"
        return os.pathsep.join((str(library / "imq.jar"), str(library / "jms.jar")))

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, home = ports(), path_of(self.parts[1])
        library = home / "lib"
        (folder / "passfile").write_text("imq.imqcmd.password=admin\n")
        synced = "true" if self.chosen("sync") == "yes" else "false"
        properties = {**_PROPERTIES, "imq.persist.file.sync.enabled": synced}
        return Launch(
            [
                str(path_of(self.parts[0])), "-Xms64M", f"-Xmx{self.chosen('memory')}", "-Xss256k",
                "-cp", os.pathsep.join((str(library / "imqbroker.jar"), str(library / "imqutil.jar"))),
                f"-Dimq.home={home}", f"-Dimq.varhome={folder}", f"-Dimq.etchome={home / 'etc'}",
                f"-Dimq.libhome={library}", _BROKER, "-name", "lab", "-port", str(port), "-tty", "-force",
                *(f"-D{key}={value}" for key, value in properties.items()),
            ],
            ports={"jms": port},
            addresses={"jms": f"tcp:127.0.0.1:{port}"},
            options={"jms": {
                "provider": "openmq", "jars": self.jars,
                "user": "admin", "password": "admin", "replies": self.chosen("replies"),
            }},
            directory=folder,
        )  # fmt: skip


def _queue_name(name: str) -> str:
    """The name that the JMS driver uses: letters, digits and underscores."""
    return re.sub(r"\W", "_", name)
