"""RabbitMQ. It syncs persistent messages on durable queues before it confirms them; no setting changes that.

The limits of its memory and disk alarms are so wide that they block no producers, since queues grow in some runs.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Debian, Part, path_of
from mqlab.systems.program import Launch, Program, ProgramRunning
from mqlab.wire.amqp.decoder import AmqpDecoder
from mqlab.wire.amqp.handshake import PROTOCOL_HEADER, AmqpHandshake
from mqlab.wire.amqp.methods import Method, method
from mqlab.wire.amqp.values import AmqpError

_PLUGINS: Final = "[rabbitmq_amqp1_0,rabbitmq_mqtt,rabbitmq_stomp].\n"
_LOGIN: Final = {"user": "guest", "password": "guest"}
_WITH_PRESET: Final = ("stomp", "amqp10")
_ASK_SECONDS: Final = 20.0
# The reply code for a queue that does not exist.
_NOT_FOUND: Final = 404


class RabbitRunning(ProgramRunning):
    """AMQP methods give the depth of queues and delete them."""

    async def depth(self, queue: str) -> int:
        answer = await self._call("queue.declare", 0, _queue_name(queue), True, False, False, False, False, {})
        return int(answer.arguments[1])

    async def remove(self, queue: str) -> None:
        await self._call("queue.delete", 0, _queue_name(queue), False, False, False)

    async def _call(self, name: str, *arguments: object) -> Method:
        self.check()
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                return await _call_method(self.launch.ports["amqp"], method(1, name, *arguments))
        except (OSError, EOFError, AmqpError) as error:
            raise SystemFailedError(f"rabbitmq does not answer: {error or 'in time'}") from error


class RabbitMQ(Program):
    name = "rabbitmq"
    title = "RabbitMQ"
    version = "3.10.8"
    drivers = ("amqp", "stomp", "mqtt3", "amqp10")
    parts: tuple[Part, ...] = (Debian(("rabbitmq-server",), "/usr/lib/rabbitmq/bin/rabbitmq-server"),)
    # The share of the machine's memory at which it blocks all publishers.
    defaults: ClassVar[Mapping[str, str]] = {"memory": "0.8"}
    lacks: ClassVar[Mapping[str, str]] = {
        "priority": "the lab declares the queues of RabbitMQ without priorities (x-max-priority)",
        "keys": "RabbitMQ has no message groups",
        "selectors": "a consumer of RabbitMQ gets all that is on its queue",
        "retrieval by correlation id": "its consumers cannot choose messages: each requester has its own queue",
    }
    lacks_with: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "amqp10": {
            "transactions": "RabbitMQ's plugin for AMQP 1.0 has none",
            "durable subscriptions": "RabbitMQ's plugin for AMQP 1.0 makes a new queue for each subscriber",
        }
    }
    running_class = RabbitRunning

    def durability(self) -> Durability:
        return Durability(
            syncs="before confirming",
            persistent="on a durable queue, or in each durable subscription: written and synced; "
            "a subscription that is not durable is in memory",
            confirmed="routed to its queues, in memory",
            acknowledged="when the consumer asks for the next message, acknowledges or commits; not synced",
            replies="to a queue of each requester, with the correlation id of the request",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        numbers = {driver: ports() for driver in self.drivers}
        # One port for both: the first bytes of a client name the protocol.
        numbers["amqp10"] = numbers["amqp"]
        (folder / "home").mkdir()
        (folder / "rabbitmq.conf").write_text(_configuration(numbers, self.chosen("memory")))
        (folder / "plugins").write_text(_PLUGINS)
        return Launch(
            [str(path_of(self.parts[0]))],
            ports=numbers,
            addresses={driver: f"tcp:127.0.0.1:{number}" for driver, number in numbers.items()},
            environment=_environment(folder, f"mqlab{numbers['amqp']}@localhost", ports(), ports()),
            options=dict.fromkeys(self.drivers, _LOGIN) | dict.fromkeys(_WITH_PRESET, _LOGIN | {"flavour": "rabbitmq"}),
        )

    async def answers(self, launch: Launch) -> bool:
        await super().answers(launch)
        try:
            await _call_method(launch.ports["amqp"], b"")
        except AmqpError as error:
            raise OSError(str(error)) from error
        return True


def _configuration(numbers: Mapping[str, int], memory: str) -> str:
    return f"""\
listeners.tcp.1 = 127.0.0.1:{numbers["amqp"]}
stomp.listeners.tcp.1 = 127.0.0.1:{numbers["stomp"]}
mqtt.listeners.tcp.1 = 127.0.0.1:{numbers["mqtt3"]}
vm_memory_high_watermark.relative = {memory}
disk_free_limit.absolute = 50MB
log.console = true
log.console.level = warning
log.file = false
"""


def _environment(folder: Path, node: str, distribution: int, mapper: int) -> dict[str, str]:
    """A separate node: it shares no name, cookie, files or port mapper with other nodes of the machine."""
    return {
        "HOME": str(folder / "home"),
        "RABBITMQ_NODENAME": node,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }


def _queue_name(queue: str) -> str:
    """The name that the drivers use; a durable subscription is a queue with its full name."""
    return queue.removeprefix("queue:")


async def _call_method(port: int, request: bytes) -> Method:
    """The answer to a method on channel 1, over a new connection; without a request, only connect.

    Raises OSError, EOFError and AmqpError.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    handshake, splitter = AmqpHandshake("guest", "guest"), AmqpDecoder()
    try:
        writer.write(PROTOCOL_HEADER)
        while data := await reader.read(65536):
            for answer in splitter.feed(data):
                assert isinstance(answer, Method)
                if not handshake.done:
                    writer.write(handshake.answer(answer))
                    if handshake.done and not request:
                        return answer
                    if handshake.done:
                        writer.write(method(1, "channel.open", ""))
                elif answer.name == "channel.open-ok":
                    writer.write(request)
                elif answer.name == "channel.close" and answer.arguments[0] == _NOT_FOUND:
                    raise AmqpError(f"there is no such queue: {answer.arguments[1]}")
                else:
                    return answer
        raise EOFError("it closed the connection")
    finally:
        if handshake.done:
            writer.write(method(0, "connection.close", 200, "", 0, 0))
        writer.close()
