"""ActiveMQ Classic. It syncs KahaDB before it confirms persistent sends.

Unlike its default configuration, this one drops no messages of slow topic subscribers: flow control blocks producers
when the memory is full.
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
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}?wireFormat.maxFrameSize=268435456"/>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}?wireFormat.maxFrameSize=268435456"/>
      <transportConnector name="amqp" uri="amqp://127.0.0.1:{amqp}?wireFormat.maxFrameSize=268435456"/>
    </transportConnectors>
  </broker>
</beans>
"""


class ActiveMQRunning(ProgramRunning):
    """Its statistics plugin answers messages to queues with a certain prefix."""

    async def depth(self, queue: str) -> int:
        self.check()
        replies, statistics = f"/queue/{new_reply_queue()}", "/queue/ActiveMQ.Statistics.Destination"
        subscribe = {"id": "0", "destination": replies, "ack": "auto", "transformation": "jms-map-json"}
        request = {"destination": f"{statistics}.{_queue_name(queue)}", "reply-to": replies}
        frames: list[StompFrame | bytes] = [StompFrame("SUBSCRIBE", subscribe), text_message(request)]
        [answer] = await exchange(self.launch.ports["stomp"], frames, bool)
        return _parse_size(answer.body.decode(errors="replace"))

    async def remove(self, queue: str) -> None:
        """Consume its messages; ActiveMQ keeps the empty queue."""
        messages = await self.depth(queue)
        headers = {"id": "0", "destination": f"/queue/{_queue_name(queue)}", "ack": "auto", "receipt": "0"}
        unsubscribe = [StompFrame("UNSUBSCRIBE", {"id": "0", "receipt": "1"})] if not messages else []
        frames = [StompFrame("SUBSCRIBE", headers), *unsubscribe]
        await exchange(self.launch.ports["stomp"], frames, lambda received: len(received) > messages)


def _queue_name(queue: str) -> str:
    kind, _, name = queue.partition(":")
    if kind != "queue":
        raise SystemFailedError(f"activemq cannot be asked about {queue}")
    return name


def _parse_size(answer: str) -> int:
    """From the entries of a map message as JSON."""
    entries = json.loads(answer)["map"]["entry"]
    sizes = [entry["long"] for entry in entries if entry.get("string") == "size"]
    if not sizes:
        raise SystemFailedError(f"activemq does not report the size of a queue: {answer[:200]}")
    return int(sizes[0])


class ActiveMQ(JmsBroker):
    name = "activemq"
    title = "ActiveMQ Classic"
    compiles = True
    version = "5.18.3"
    drivers = ("jms", "stomp", "amqp10")
    parts: tuple[Part, ...] = (Java(), Archive(f"org.apache.activemq:apache-activemq:{version}:tar.gz:bin"))
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "1G"}
    running_class = ActiveMQRunning

    def durability(self) -> Durability:
        return self.journal_durability(unsynced="never", removal="; not synced")

    @property
    def own_jars(self) -> str:
        library = path_of(self.parts[1]) / "lib"
        return f"{library}:{library}/optional/log4j-*.jar"

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        openwire, stomp, amqp, home = ports(), ports(), ports(), path_of(self.parts[1])
        sync = "always" if self.chosen("sync") == "yes" else "never"
        configuration = folder / "activemq.xml"
        configuration.write_text(
            _CONFIGURATION.format(data=folder / "data", sync=sync, openwire=openwire, stomp=stomp, amqp=amqp)
        )
        ports_by_driver = {"jms": amqp if self.uses_qpid_jms else openwire, "stomp": stomp, "amqp10": amqp}
        folders = {"home": home, "base": home, "conf": home / "conf", "data": folder / "data"}
        return Launch(
            [
                str(path_of(self.parts[0])), "-Xms64M", f"-Xmx{self.chosen('memory')}",
                *(f"-Dactivemq.{name}={path}" for name, path in folders.items()), f"-Djava.io.tmpdir={folder}",
                "-jar", str(home / "bin" / "activemq.jar"), "start", f"xbean:{configuration.as_uri()}",
            ],
            ports=ports_by_driver,
            addresses={driver: f"tcp:127.0.0.1:{port}" for driver, port in ports_by_driver.items()},
            options={
                "stomp": {"flavour": "activemq"},
                "jms": self.jms_options,
                "amqp10": {"flavour": "activemq"},
            },
        )  # fmt: skip
