"""Systems for the tests of trouble: the embedded broker as a program like any other, and programs that are no good."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import psutil

from mqlab.systems import Durability
from mqlab.systems.install.download import Part
from mqlab.systems.program import Launch, Program
from process_helpers import commands_with

# Lets everybody in, and shows everybody the door. argv: folder, port
TURNS_AWAY = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    server.accept()[0].close()
"""
# Takes every connection and never says a word. argv: folder, port
SAYS_NOTHING = """
import socket, sys
server, taken = socket.create_server(("127.0.0.1", int(sys.argv[2]))), []
while True:
    taken.append(server.accept())
"""
ENDS = "import sys; sys.exit('no licence, no service')"


class Served(Program):
    """`text` is a program of Python; "": the broker. With at most `file_size` KiB in a file."""

    name = "served"
    title = "a program of a test"
    version = "1"
    drivers = ("native",)
    parts: tuple[Part, ...] = ()
    text: ClassVar[str] = ""
    file_size: ClassVar[str] = "unlimited"
    # How often it was started.
    starts: ClassVar[int] = 0

    def durability(self) -> Durability:
        return Durability("before confirming", "", "", "", "")

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        type(self).starts += 1
        port = ports()
        own = ["-c", self.text, str(folder), str(port)]
        listen = f"--listen=tcp:127.0.0.1:{port}"
        broker = ["-m", "mqlab", "broker", f"--data={folder / 'data'}", listen, "--no-preallocate"]
        limited = ["sh", "-c", f'ulimit -f {self.file_size} && exec "$@"', "sh"]
        return Launch(
            [*limited, sys.executable, *(own if self.text else broker)], {"native": port},
            {"native": f"tcp:127.0.0.1:{port}"},
        )  # fmt: skip


def served(name: str = "served", **changes: object) -> Served:
    """One of a kind of its own."""
    kind: type[Served] = type("Served", (Served,), {"name": name, "starts": 0, **changes})
    return kind({})


def programs_running() -> list[psutil.Process]:
    """The processes below the supervisors."""
    supervisors = commands_with("supervisor.py", psutil.Process().children())
    return [below for supervisor in supervisors for below in supervisor.children(recursive=True)]
