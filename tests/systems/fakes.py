"""Systems that are small programs of Python, to see what becomes of those that fail."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from mqlab.systems import Durability
from mqlab.systems.install.download import Part
from mqlab.systems.program import Launch, Program

# Listens, and closes every connection at once. argv: port
LISTENS = """
import socket, sys
print("at your service", flush=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    server.accept()[0].close()
"""
# Has a child with two sessions between them: a daemon by the book. argv: port, where it writes the daemon's pid
WITH_A_DAEMON = (
    """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        os.setsid()
        open(sys.argv[2] + ".new", "w").write(str(os.getpid()))
        os.rename(sys.argv[2] + ".new", sys.argv[2])
        time.sleep(1000)
    os._exit(0)
"""
    + LISTENS
)
# Has used a measurable amount of processor time before it listens: the kernel counts in ticks of up to 10 ms.
SPENDS = "import time\nwhile time.process_time() < 0.1: pass" + LISTENS
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + LISTENS
NEVER_LISTENS = "import time\nprint('first\\nI am waiting for better times', flush=True)\ntime.sleep(1000)"
ENDS = "import sys; print('the disk is full'); sys.exit(3)"


class Fake(Program):
    name = "fake"
    title = "a program of a test"
    drivers: ClassVar[tuple[str, ...]] = ("stomp", "mqtt")
    version = "1.0"
    parts: tuple[Part, ...] = ()
    defaults: ClassVar[dict[str, str]] = {"sync": "yes", "memory": "1m"}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"sync": ("yes", "no")}
    program: ClassVar[str] = LISTENS

    def durability(self) -> Durability:
        return Durability("before confirming" if self.chosen("sync") == "yes" else "later", "", "", "", "")

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        port = ports()
        return Launch(
            [sys.executable, "-c", self.program, str(port), str(folder / "pid")], {"stomp": port},
            {"stomp": f"tcp:127.0.0.1:{port}", "mqtt": "tcp:127.0.0.1:1"}, options={"stomp": {"user": "lab"}},
        )  # fmt: skip


def fake(program: str, **changes: object) -> Program:
    kind: type[Fake] = type("Fake", (Fake,), {"program": program, **changes})
    return kind({})
