"""Eclipse Mosquitto. It keeps messages for slow or absent subscribers in memory: it drops and syncs nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from mqlab.systems.api import Durability
from mqlab.systems.install.download import Debian, Part, path_of
from mqlab.systems.program import Launch, Program


class Mosquitto(Program):
    name = "mosquitto"
    title = "Eclipse Mosquitto"
    version = "2.0.11"
    drivers = ("mqtt", "mqtt3")
    parts: tuple[Part, ...] = (Debian(("mosquitto",), "mosquitto"),)
    start_seconds = 20.0
    lacks: ClassVar[Mapping[str, str]] = {"depth": "Mosquitto does not tell how many messages wait for a subscriber"}

    def durability(self) -> Durability:
        return Durability(
            syncs="never",
            persistent="accepted by the broker (QoS 1), in memory: lost when it dies",
            confirmed="accepted by the broker (QoS 1), in memory",
            acknowledged="QoS 1: when the consumer asks for the next message; QoS 0: when it is sent",
            replies="to a topic of each requester, with the correlation data of the request",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port = ports()
        configuration = folder / "mosquitto.conf"
        configuration.write_text(f"""\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_queued_bytes 0
max_inflight_messages 0
queue_qos0_messages true
set_tcp_nodelay true
log_dest stderr
log_type error
log_type warning
""")
        address = f"tcp:127.0.0.1:{port}"
        return Launch(
            [str(path_of(self.parts[0])), "-c", str(configuration)],
            ports=dict.fromkeys(self.drivers, port),
            addresses=dict.fromkeys(self.drivers, address),
        )
