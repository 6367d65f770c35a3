"""ActiveMQ Artemis, as its own tool configures it: it syncs its journal before it confirms persistent sends.

The tool tunes the journal to the disk. Beyond the memory of the setting, the broker pages to disk and drops nothing.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from mqlab.systems.activemq_common import JmsBroker, exchange, new_reply_queue, text_message
from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Archive, Java, Part, path_of
from mqlab.systems.program import Launch, ProgramRunning
from mqlab.wire.stomp.frames import StompFrame

# The tool measures the disk and writes the configuration, once; then the broker starts.
_CREATE_AND_RUN: Final = """\
program="$1" instance="$2"
shift 2
{ [ -d "$instance" ] || "$program" create "$instance" "$@"; } && exec "$instance/bin/artemis" run
"""


class ArtemisRunning(ProgramRunning):
    """Its management answers requests that are sent as messages."""

    async def depth(self, queue: str) -> int:
        request = {"_AMQ_ResourceName": f"queue.{_queue_name(queue)}", "_AMQ_Attribute": "messageCount"}
        return int(json.loads(await self._manage(request) or "[0]")[0])

    async def remove(self, queue: str) -> None:
        request = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "destroyQueue"}
        await self._manage(request, json.dumps([_queue_name(queue), True]))

    async def _manage(self, request: dict[str, str], parameters: str = "") -> str:
        self.check()
        replies = new_reply_queue()
        subscribe = {"id": "0", "destination": replies, "subscription-type": "ANYCAST", "ack": "auto"}
        headers = {"destination": "activemq.management", "reply-to": replies, **request}
        frames: list[StompFrame | bytes] = [StompFrame("SUBSCRIBE", subscribe), text_message(headers, parameters)]
        [answer] = await exchange(self.launch.ports["stomp"], frames, bool)
        values = answer.body.decode(errors="replace")
        if answer.headers.get("_AMQ_OperationSucceeded") != "true":
            raise SystemFailedError(f"artemis: {' '.join(request.values())}: {values}")
        return values


def _queue_name(queue: str) -> str:
    """Its name for a queue of the lab, or for the queue of a durable subscription."""
    kind, _, name = queue.partition(":")
    return f"{name}.{name}" if kind == "subscription" else name


class Artemis(JmsBroker):
    name = "artemis"
    title = "ActiveMQ Artemis"
    compiles = True
    version = "2.56.0"
    drivers = ("stomp", "jms", "amqp10")
    parts: tuple[Part, ...] = (Java(), Archive(f"org.apache.artemis:apache-artemis:{version}:tar.gz:bin"))
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "2G"}
    running_class = ArtemisRunning
    # A Java tool that measures the disk runs first.
    start_seconds = 120.0

    def durability(self) -> Durability:
        return self.journal_durability(unsynced="later")

    @property
    def own_jars(self) -> str:
        return str(path_of(self.parts[1]) / "lib")

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, home, instance = ports(), path_of(self.parts[1]), folder / "instance"
        arguments = [
            "--silent", "--user", "lab", "--password", "lab", "--allow-anonymous", "--host", "127.0.0.1",
            "--default-port", str(port), "--no-amqp-acceptor", "--no-hornetq-acceptor", "--no-mqtt-acceptor",
            "--no-stomp-acceptor", "--nio", "--no-web", "--java-memory", self.chosen("memory"),
            *([] if self.chosen("sync") == "yes" else ["--no-fsync"]),
        ]  # fmt: skip
        return Launch(
            ["sh", "-c", _CREATE_AND_RUN, "artemis", str(home / "bin" / "artemis"), str(instance), *arguments],
            ports=dict.fromkeys(self.drivers, port),
            addresses=dict.fromkeys(self.drivers, f"tcp:127.0.0.1:{port}"),
            options={
                "stomp": {"flavour": "artemis"},
                "jms": self.jms_options,
                "amqp10": {"flavour": "artemis"},
            },
        )
