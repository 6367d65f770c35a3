"""Qpid Broker-J with a Berkeley DB store, which syncs each commit before the broker confirms.

The broker creates queues when they are first used. Beyond the memory of the setting, it keeps messages on disk and
drops none.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Archive, Java, Part, path_of
from mqlab.systems.install.qpid_jms import QPID_JMS
from mqlab.systems.program import Launch, Program, ProgramRunning

_ASK_SECONDS: Final = 20.0
_HOST: Final = "api/latest/virtualhost/default/default"
_QUEUES: Final = "api/latest/queue/default/default"
_NOT_FOUND: Final = 404


class QpidRunning(ProgramRunning):
    """Its management API is HTTP."""

    async def depth(self, queue: str) -> int:
        answer = await self._request("GET", queue)
        return int(json.loads(answer)["statistics"]["queueDepthMessages"])

    async def remove(self, queue: str) -> None:
        await self._request("DELETE", queue)

    async def _request(self, method: str, queue: str) -> bytes:
        self.check()
        kind, _, name = queue.partition(":")
        if kind != "queue":
            raise SystemFailedError(f"qpid cannot be asked about {queue}")
        url = f"http://127.0.0.1:{self.launch.ports['http']}/{_QUEUES}/{name}"
        return await asyncio.to_thread(_fetch, Request(url, method=method))


class Qpid(Program):
    name = "qpid"
    title = "Qpid Broker-J"
    compiles = True
    version = "9.2.1"
    drivers = ("amqp10", "jms")
    parts: tuple[Part, ...] = (
        Java(),
        Archive(f"org.apache.qpid:apache-qpid-broker-j:{version}:tar.gz:bin"),
        # The client for the driver jms: the broker comes without one.
        QPID_JMS,
    )
    defaults: ClassVar[Mapping[str, str]] = {"memory": "1536m"}
    running_class = QpidRunning

    def durability(self) -> Durability:
        return Durability(
            syncs="before confirming",
            persistent="written to the store and synced, in one transaction with other waiting messages",
            confirmed="in the queues, in memory",
            acknowledged="when the consumer asks for the next message, acknowledges or commits",
            replies="on a queue shared by all; each requester has one consumer with a selector for its correlation ids",
        )

    @property
    def jars(self) -> str:
        return str(path_of(self.parts[2]))

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        amqp, http, home = ports(), ports(), path_of(self.parts[1])
        configuration = folder / "initial.json"
        configuration.write_text(json.dumps(_configuration(folder, amqp, http)))
        return Launch(
            [
                str(path_of(self.parts[0])), "-Xmx512m", f"-XX:MaxDirectMemorySize={self.chosen('memory')}",
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
        """Its ports open before its virtual host is active."""
        url = f"http://127.0.0.1:{launch.ports['http']}/{_HOST}"
        try:
            state = json.loads(await asyncio.to_thread(_fetch, Request(url)))
        except (SystemFailedError, ValueError):
            return False
        return isinstance(state, dict) and state.get("state") == "ACTIVE"


def _configuration(folder: Path, amqp: int, http: int) -> dict[str, object]:
    common = {"bindingAddress": "127.0.0.1", "authenticationProvider": "anyone"}
    aliases = [{"name": name, "type": name} for name in ("nameAlias", "defaultAlias", "hostnameAlias")]
    created = {"createdOnPublish": True, "createdOnConsume": True}
    creation = {"pattern": ".*", **created, "nodeType": "queue", "attributes": {}}
    host = {"type": "BDB", "nodeAutoCreationPolicies": [creation], "storePath": str(folder / "messages")}
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


def _fetch(request: Request) -> bytes:
    try:
        with urlopen(request, timeout=_ASK_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except HTTPError as error:
        if error.code == _NOT_FOUND and request.method == "DELETE":
            return b""
        raise SystemFailedError(f"qpid reports: {error}") from error
    except (URLError, OSError) as error:
        raise SystemFailedError(f"qpid does not answer: {error}") from error
