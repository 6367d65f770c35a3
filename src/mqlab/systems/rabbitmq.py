"""RabbitMQ. Its memory and disk alarms are set so wide that they hold nobody back, since a queue may grow in a run.

It syncs persistent messages on durable queues before it confirms them; nothing has to be set for that, and nothing can.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from mqlab.systems.api import Durability, SystemFailedError
from mqlab.systems.install.download import Debian, Part, place
from mqlab.systems.program import Launch, Program, ProgramRunning
from mqlab.wire.amqp import PROTOCOL_HEADER, AmqpDecoder, AmqpError, AmqpHandshake, Method, method

_PLUGINS: Final = "[rabbitmq_amqp1_0,rabbitmq_mqtt,rabbitmq_stomp].\n"
_LOGIN: Final = {"user": "guest", "password": "guest"}
_FLAVOURED: Final = ("stomp", "amqp10")
_ASK_SECONDS: Final = 20.0
# Not found; the channel is closed then.
_NOT_FOUND: Final = 404


class RabbitRunning(ProgramRunning):
    async def depth(self, queue: str) -> int:
        answer = await self._ask("queue.declare", 0, _named(queue), True, False, False, False, False, {})
        return int(answer[1])

    async def remove(self, queue: str) -> None:
        await self._ask("queue.delete", 0, _named(queue), False, False, False)

    async def _ask(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        self.check()
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                return await _asked(self.launch.ports["amqp"], method(1, name, *arguments))
        except (OSError, EOFError, AmqpError) as error:
            raise SystemFailedError(f"rabbitmq does not answer: {error or 'in time'}") from error


class RabbitMQ(Program):
    name = "rabbitmq"
    title = "RabbitMQ"
    version = "3.10.8"
    drivers = ("amqp", "stomp", "mqtt3", "amqp10")
    parts: ClassVar[tuple[Part, ...]] = (Debian(("rabbitmq-server",), "/usr/lib/rabbitmq/bin/rabbitmq-server"),)
    # The share of the machine's memory at which it stops all publishers.
    defaults: ClassVar[Mapping[str, str]] = {"memory": "0.8"}
    lacks: ClassVar[Mapping[str, str]] = {
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
            acknowledged="when the consumer asks for the next, or says so, or commits; not synced",
            replies="to a queue of each requester, with the correlation id of the request",
        )

    def launch(self, folder: Path, ports: Callable[[], int]) -> Launch:
        numbers = {driver: ports() for driver in self.drivers}
        # One port for both: a client's first bytes say which it speaks.
        numbers["amqp10"] = numbers["amqp"]
        (folder / "home").mkdir()
        (folder / "rabbitmq.conf").write_text(_configuration(numbers, self.chosen("memory")))
        (folder / "plugins").write_text(_PLUGINS)
        return Launch(
            [str(place(self.parts[0]))],
            ports=numbers,
            addresses={driver: f"tcp:127.0.0.1:{number}" for driver, number in numbers.items()},
            environment=_environment(folder, f"mqlab{numbers['amqp']}@localhost", ports(), ports()),
            options=dict.fromkeys(self.drivers, _LOGIN) | dict.fromkeys(_FLAVOURED, _LOGIN | {"flavour": "rabbitmq"}),
        )

    async def answers(self, launch: Launch) -> bool:
        await super().answers(launch)
        try:
            await _asked(launch.ports["amqp"], b"")
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
    """A node of its own: with the machine's other nodes it shares neither name, cookie, files nor port mapper."""
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


def _named(queue: str) -> str:
    """As the drivers call it; a durable subscription is a queue under its own full name."""
    return queue.removeprefix("queue:")


async def _asked(port: int, question: bytes) -> tuple[Any, ...]:
    """The answer to a question on channel 1, over a connection made for it. Raises OSError, EOFError, AmqpError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    handshake, splitter = AmqpHandshake("guest", "guest"), AmqpDecoder()
    try:
        writer.write(PROTOCOL_HEADER)
        while data := await reader.read(65536):
            for said in splitter.feed(data):
                assert isinstance(said, Method)
                if not handshake.done:
                    writer.write(handshake.answer(said))
                    if handshake.done and not question:
                        return ()
                    if handshake.done:
                        writer.write(method(1, "channel.open", ""))
                elif said.name == "channel.open-ok":
                    writer.write(question)
                elif said.name == "channel.close" and said.arguments[0] == _NOT_FOUND:
                    raise AmqpError(f"there is no such queue: {said.arguments[1]}")
                else:
                    return said.arguments
        raise EOFError("it closed the connection")
    finally:
        if handshake.done:
            writer.write(method(0, "connection.close", 200, "", 0, 0))
        writer.close()
