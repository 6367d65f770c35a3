"""Qpid Broker-J with a Berkeley DB store, which syncs each commit before it confirms; queues are made when they are
first used; beyond the memory of the setting, messages are kept on disk and none is dropped.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Archive, Jars, Java, Part, place
from mqlab.systems.program import Launch, Program, ProgramRunning

_ASK_SECONDS: Final = 20.0
_HOST: Final = "api/latest/virtualhost/default/default"
_QUEUES: Final = "api/latest/queue/default/default"
_GONE: Final = 404


class QpidRunning(ProgramRunning):
    """Its management answers over HTTP."""

    async def depth(self, queue: str) -> int:
        said = await self._asked("GET", queue)
        return int(json.loads(said)["statistics"]["queueDepthMessages"])

    async def remove(self, queue: str) -> None:
        await self._asked("DELETE", queue)

    async def _asked(self, method: str, queue: str) -> bytes:
        self.check()
        kind, _, name = queue.partition(":")
        if kind != "queue":
            raise SystemFailedError(f"qpid cannot be asked about {queue}")
        url = f"http://127.0.0.1:{self.launch.ports['http']}/{_QUEUES}/{name}"
        return await asyncio.to_thread(_fetched, Request(url, method=method))


class Qpid(Program):
    name = "qpid"
    title = "Qpid Broker-J"
    compiles = True
    version = "9.2.1"
    drivers = ("amqp10", "jms")
    parts: ClassVar[tuple[Part, ...]] = (
        Java(),
        Archive(f"org.apache.qpid:apache-qpid-broker-j:{version}:tar.gz:bin"),
        # For the driver jms: the broker itself has no client. It wants something to log with, be it nothing.
        Jars(("org.apache.qpid:qpid-jms-client:1.14.0", "org.slf4j:slf4j-nop:2.0.17")),
    )
    defaults: ClassVar[Mapping[str, str]] = {"memory": "1536m"}
    running_class = QpidRunning

    def durability(self) -> Durability:
        return Durability(
            syncs="before confirming",
            persistent="written to the store and synced, in one transaction with those that wait beside it",
            confirmed="in the queues, in memory",
            acknowledged="when the consumer asks for the next, or says so, or commits",
            replies="on a queue shared by all; each requester has one consumer with a selector for its correlation ids",
        )

    @property
    def jars(self) -> str:
        return str(place(self.parts[2]))

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        amqp, http, home = ports(), ports(), place(self.parts[1])
        configuration = folder / "initial.json"
        configuration.write_text(json.dumps(_configuration(folder, amqp, http)))
        return Launch(
            [
                str(place(self.parts[0])), "-Xmx512m", f"-XX:MaxDirectMemorySize={self.chosen('memory')}",
                f"-Dqpid.work_dir={folder}", f"-Djava.io.tmpdir={folder}", "-cp", f"{home / 'lib'}/*",
                "org.apache.qpid.server.Main", "-st", "JSON", "-sp", str(folder / "config.json"),
                "-icp", str(configuration),
            ],
            ports={"amqp10": amqp, "jms": amqp, "http": http},
            addresses=dict.fromkeys(self.drivers, f"tcp:127.0.0.1:{amqp}"),
            options={
                "amqp10": {"flavour": "qpid"},
                "jms": {"provider": "qpid", "jars": self.jars},
            },
        )  # fmt: skip

    async def answers(self, launch: Launch) -> bool:
        """It listens, and its management answers, before its virtual host serves anybody."""
        url = f"http://127.0.0.1:{launch.ports['http']}/{_HOST}"
        try:
            said = json.loads(await asyncio.to_thread(_fetched, Request(url)))
        except (SystemFailedError, ValueError):
            return False
        return isinstance(said, dict) and said.get("state") == "ACTIVE"


def _configuration(folder: Path, amqp: int, http: int) -> dict[str, Any]:
    common = {"bindingAddress": "127.0.0.1", "authenticationProvider": "anyone"}
    aliases = [{"name": name, "type": name} for name in ("nameAlias", "defaultAlias", "hostnameAlias")]
    made = {"pattern": ".*", "createdOnPublish": True, "createdOnConsume": True, "nodeType": "queue", "attributes": {}}
    host = {"type": "BDB", "nodeAutoCreationPolicies": [made], "storePath": str(folder / "messages")}
    return {
        "name": "lab",
        "modelVersion": "8.0",
        "authenticationproviders": [{"name": "anyone", "type": "Anonymous"}],
        "ports": [
            {"name": "AMQP", "port": amqp, "virtualhostaliases": aliases, **common},
            {"name": "HTTP", "port": http, "protocols": ["HTTP"], **common},
        ],
        "virtualhostnodes": [{
            "name": "default", "type": "JSON", "defaultVirtualHostNode": True,
            "virtualHostInitialConfiguration": json.dumps(host),
        }],
        "plugins": [{"type": "MANAGEMENT-HTTP", "name": "httpManagement"}],
    }  # fmt: skip


def _fetched(request: Request) -> bytes:
    try:
        with urlopen(request, timeout=_ASK_SECONDS) as answer:
            said: bytes = answer.read()
            return said
    except HTTPError as error:
        if error.code == _GONE and request.method == "DELETE":
            return b""
        raise SystemFailedError(f"qpid says: {error}") from error
    except (URLError, OSError) as error:
        raise SystemFailedError(f"qpid does not answer: {error}") from error
