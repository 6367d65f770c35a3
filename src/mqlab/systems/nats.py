"""NATS, with JetStream for persistent messages: it syncs the files of a stream before it confirms a message.

The server buffers a gigabyte for a slow consumer of core NATS and slows producers down before it disconnects it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from mqlab.systems.api import Durability
from mqlab.systems.install.download import GoProgram, Part, path_of
from mqlab.systems.program import Launch, Program


class Nats(Program):
    name = "nats"
    title = "NATS (core, and JetStream for persistent messages)"
    version = "2.15.2"
    drivers = ("nats",)
    parts: tuple[Part, ...] = (GoProgram(f"github.com/nats-io/nats-server/v2@v{version}"),)
    defaults: ClassVar[Mapping[str, str]] = {"sync": "yes"}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    start_seconds = 20.0

    def durability(self) -> Durability:
        synced = self.chosen("sync") == "yes"
        return Durability(
            syncs="before confirming" if synced else "later",
            persistent="in the file of a stream" + (", synced" if synced else "; synced every two minutes"),
            confirmed="passed on by the server (a PONG after it); no queue keeps it for absent consumers",
            acknowledged="persistent: when the consumer asks for the next message; else when the server sends it",
            replies="to an inbox of its connection, under a subject of its own; persistent ones on a shared stream, of "
            "which each requester reads its own subjects",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port, configuration = ports(), folder / "nats.conf"
        sync = "always" if self.chosen("sync") == "yes" else '"2m"'
        configuration.write_text(f"""\
host: "127.0.0.1"
port: {port}
max_payload: 64MB
max_pending: 1GB
write_deadline: "60s"
max_control_line: 4096
jetstream {{
  store_dir: "{folder / "store"}"
  sync_interval: {sync}
  max_buffered_msgs: 1000000
  max_buffered_size: 1GB
}}
""")
        return Launch(
            [str(path_of(self.parts[0])), "-c", str(configuration)],
            ports={"nats": port},
            addresses={"nats": f"tcp:127.0.0.1:{port}"},
        )
