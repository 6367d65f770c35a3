"""ActiveMQ Classic with a configuration of its own: KahaDB synced before persistent sends are confirmed, and, unlike
what it comes with, nothing dropped for slow subscribers of topics: producers are held back when its memory is full.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Archive, Java, Part, place
from mqlab.systems.program import Launch, Program, ProgramRunning
from mqlab.systems.stomp_management import answers_queue, asked, text
from mqlab.wire.stomp import StompFrame

_CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="lab" dataDirectory="{data}" useJmx="false">
    <persistenceAdapter><kahaDB directory="{data}/kahadb" journalDiskSyncStrategy="{sync}"/></persistenceAdapter>
    <plugins><statisticsBrokerPlugin/></plugins>
    <systemUsage><systemUsage>
      <memoryUsage><memoryUsage percentOfJvmHeap="70"/></memoryUsage>
      <storeUsage><storeUsage limit="100 gb"/></storeUsage>
      <tempUsage><tempUsage limit="50 gb"/></tempUsage>
    </systemUsage></systemUsage>
    <transportConnectors>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{jms}?wireFormat.maxFrameSize=268435456"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}?wireFormat.maxFrameSize=268435456"/>
      <transportConnector name="amqp" uri="amqp://127.0.0.1:{amqp10}?wireFormat.maxFrameSize=268435456"/>
    </transportConnectors>
  </broker>
</beans>
"""
_REPLIES: Final = "on a queue shared by all; each requester has one consumer with a selector for its correlation ids"
_TAKEN: Final = "when the consumer asks for the next, or says so, or commits; not synced"
_TAKEN_JMS: Final = "auto: as it is handed to the consumer; else when the consumer says so or commits; not synced"
_REPLIES_JMS: Final = "on a queue shared by all, by a selector on the correlation id"


class ActiveMQRunning(ProgramRunning):
    async def depth(self, queue: str) -> int:
        """By its plugin for statistics, which answers messages to a queue of a certain name."""
        self.check()
        answers = f"/queue/{answers_queue()}"
        said: list[StompFrame | bytes] = [
            StompFrame(
                "SUBSCRIBE", {"id": "0", "destination": answers, "ack": "auto", "transformation": "jms-map-json"}
            ),
            text({"destination": f"/queue/ActiveMQ.Statistics.Destination.{_named(queue)}", "reply-to": answers}),
        ]
        [answer] = await asked(self.launch.ports["stomp"], said, bool)
        return _size(answer.body.decode(errors="replace"))

    async def remove(self, queue: str) -> None:
        """What is on it; the empty queue stays."""
        waiting = await self.depth(queue)
        subscribing = {"id": "0", "destination": f"/queue/{_named(queue)}", "ack": "auto", "receipt": "0"}
        leaving = [StompFrame("UNSUBSCRIBE", {"id": "0", "receipt": "1"})] if not waiting else []
        said = [StompFrame("SUBSCRIBE", subscribing), *leaving]
        await asked(self.launch.ports["stomp"], said, lambda frames: len(frames) > waiting)


def _named(queue: str) -> str:
    kind, _, name = queue.partition(":")
    if kind != "queue":
        raise SystemFailedError(f"activemq cannot be asked about {queue}")
    return name


def _size(answer: str) -> int:
    """From entries of a map, each with a name and a value."""
    entries = json.loads(answer)["map"]["entry"]
    sizes = [one["long"] for one in entries if one.get("string") == "size"]
    if not sizes:
        raise SystemFailedError(f"activemq does not tell the size of a queue: {answer[:200]}")
    return int(sizes[0])


class ActiveMQ(Program):
    name = "activemq"
    title = "ActiveMQ Classic"
    compiles = True
    version = "5.18.3"
    drivers = ("jms", "stomp", "amqp10")
    parts: ClassVar[tuple[Part, ...]] = (
        Java(),
        Archive(f"org.apache.activemq:apache-activemq:{version}:tar.gz:bin"),
    )
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "1G"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    running_class = ActiveMQRunning

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        return Durability(
            syncs="before confirming" if synced else "never",
            persistent=f"written to the journal{' and synced' if synced else ', not synced'}"
            + ("; a batch that is waited for is one transaction" if self.driver == "jms" else ""),
            confirmed="in the queues, in memory",
            acknowledged=_TAKEN_JMS if self.driver == "jms" else _TAKEN,
            replies=_REPLIES_JMS if self.driver == "jms" else _REPLIES,
        )

    @property
    def jars(self) -> str:
        library = place(self.parts[1]) / "lib"
        return f"{library}:{library}/optional/log4j-*.jar"

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        numbers, home = {driver: ports() for driver in self.drivers}, place(self.parts[1])
        sync = "always" if self.chosen("sync") == "yes" else "never"
        configuration = folder / "activemq.xml"
        configuration.write_text(_CONFIGURATION.format(data=folder / "data", sync=sync, **numbers))
        places = {"home": home, "base": home, "conf": home / "conf", "data": folder / "data"}
        return Launch(
            [
                str(place(self.parts[0])), "-Xms64M", f"-Xmx{self.chosen('memory')}",
                *(f"-Dactivemq.{name}={path}" for name, path in places.items()), f"-Djava.io.tmpdir={folder}",
                "-jar", str(home / "bin" / "activemq.jar"), "start", f"xbean:{configuration.as_uri()}",
            ],
            ports=numbers,
            addresses={driver: f"tcp:127.0.0.1:{port}" for driver, port in numbers.items()},
            options={
                "stomp": {"flavour": "activemq"},
                "jms": {"provider": "activemq", "jars": self.jars},
                "amqp10": {"flavour": "activemq"},
            },
        )  # fmt: skip
