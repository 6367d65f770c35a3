"""Apache Kafka: one broker that is also the controller (KRaft).

It syncs the topics of persistent messages before it confirms a batch. Consumed messages stay, so a slow consumer loses
none.
"""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from mqlab.study.language.faults import FaultTarget
from mqlab.systems.api import Durability
from mqlab.systems.install.download import Jars, Java, Part, path_of
from mqlab.systems.program import Launch, Program


class Kafka(Program):
    name = "kafka"
    title = "Apache Kafka"
    compiles = True
    version = "4.3.1"
    drivers = ("kafka",)
    lacks_faults: ClassVar[Mapping[FaultTarget, str]] = {
        **Program.lacks_faults,
        "line": "its clients go to the address that it advertises",
    }
    parts: tuple[Part, ...] = (
        Java(),
        Jars((
            f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        )),
    )  # fmt: skip
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes", "memory": "1G", "partitions": "4"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    start_seconds = 90.0

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        return Durability(
            syncs="before confirming" if synced else "later",
            persistent="in the log of a partition" + (", synced" if synced else ", synced when the kernel chooses"),
            confirmed="in the log of a partition, synced when the kernel chooses; it outlives the broker's process",
            acknowledged="as a position of the group that is committed when the consumer asks for the next message; "
            "messages stay where they are",
            replies="on a topic shared by all requesters, which each connection reads whole and filters by key",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, controller, data = ports(), ports(), folder / "data"
        properties = folder / "server.properties"
        properties.write_text(f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
message.max.bytes=67108864
replica.fetch.max.bytes=67108864
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
""")
        java, jars = path_of(self.parts[0]), path_of(self.parts[1])
        cluster = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        options = {key: self.chosen(key) for key in ("sync", "partitions")}
        return Launch(
            ["sh", "-c", _START, str(java), f"{jars}/*", str(properties), cluster, self.chosen("memory")],
            ports={"kafka": port},
            addresses={"kafka": f"tcp:127.0.0.1:{port}"},
            options={"kafka": options},
        )


# Formats the data folder, once; then starts the broker. $0 is Java; then jars, properties, the cluster id (it may begin
# with a dash) and memory.
_START = """\
"$0" -XX:TieredStopAtLevel=1 -cp "$1" kafka.tools.StorageTool format --ignore-formatted "--cluster-id=$3" -c "$2" &&
exec "$0" "-Xms$4" "-Xmx$4" -cp "$1" kafka.Kafka "$2"
"""
