"""The part that producers and consumers of a connection share: settings, threads for blocking calls, admin client."""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from mqlab.drivers.api import DriverError, parse_destination
from mqlab.drivers.common.timeouts import ANSWER_TIMEOUT_S, with_timeout
from mqlab.wire.address import Address, BadAddressError

_PARTITIONS: Final = "4"
_POLL_INTERVAL_S: Final = 0.01
_NEEDS_ESCAPE: Final = re.compile(r"[^A-Za-z0-9.-]")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class KafkaClient:
    """Settings and the admin client of one connection. Blocking calls run in its threads."""

    def __init__(self, address: str, options: Mapping[str, str], name: str) -> None:
        try:
            parsed = Address.parse(address)
        except BadAddressError as error:
            raise DriverError(str(error)) from error
        if not parsed.host or parsed.tls:
            raise DriverError(f"{address}: Kafka needs a tcp: address")
        self._address = parsed
        # Settings of every producer and consumer.
        self.settings: Mapping[str, str | int | float] = {
            "bootstrap.servers": f"{parsed.host}:{parsed.port}", "client.id": name or "mqlab", "log_level": 0,
            "socket.nagle.disable": "true", "socket.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),
            "topic.metadata.refresh.fast.interval.ms": 10, "reconnect.backoff.max.ms": 500,
            "allow.auto.create.topics": "false",
        }  # fmt: skip
        self.syncs = options.get("sync", "no") == "yes"
        self.partitions = int(options.get("partitions", _PARTITIONS))
        # A thread for each pending call; the pool starts them on demand.
        self._threads = ThreadPoolExecutor(256, "kafka")
        self._admin: AdminClient | None = None

    async def run_blocking(
        self, call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Run a blocking call in a thread. Raise DriverError."""
        try:
            loop = asyncio.get_running_loop()
            return await with_timeout(loop.run_in_executor(self._threads, partial(call, *arguments, **named)))
        except KafkaException as error:
            raise DriverError(f"Kafka: {error.args[0].str()}") from error

    async def open(self) -> None:
        """Test the address first, because the library would try forever to connect."""
        try:
            _, writer = await with_timeout(asyncio.open_connection(self._address.host, self._address.port))
            writer.close()
        except OSError as error:
            raise DriverError(f"cannot connect to {self._address}: {error}") from error
        self._admin = AdminClient({**self.settings})
        await self.run_blocking(self._admin.list_topics, timeout=ANSWER_TIMEOUT_S)

    async def create_topic(self, destination: str, *, persistent: bool = False) -> str:
        """Create the topic of a destination if it does not exist; return its name."""
        assert self._admin is not None
        name, admin = topic_of(destination), self._admin
        partitions = self.partitions if destination.startswith("queue:") else 1

        def create() -> None:
            future = admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=ANSWER_TIMEOUT_S)[name]
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            self._await_topic(name)

        await self.run_blocking(create)
        if persistent and self.syncs:
            await self.run_blocking(self._sync, name)
        return name

    def _await_topic(self, name: str) -> None:
        """Wait until the broker knows the topic that the controller has created."""
        assert self._admin is not None
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while error := self._admin.list_topics(name, timeout=ANSWER_TIMEOUT_S).topics[name].error:
            if time.monotonic() > deadline:
                raise KafkaException(error)
            time.sleep(_POLL_INTERVAL_S)

    def _sync(self, name: str) -> None:
        """Make the broker sync every message of the topic before it confirms it."""
        assert self._admin is not None
        entry = ConfigEntry("flush.messages", "1", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result()

    async def delete_group(self, group: str) -> None:
        """Delete a consumer group without members, and its offsets."""
        assert self._admin is not None
        for future in self._admin.delete_consumer_groups([group]).values():
            await self.run_blocking(future.result)

    def close(self) -> None:
        # Pending calls end when the library times out.
        self._threads.shutdown(wait=False)
        self._admin = None


def topic_of(destination: str) -> str:
    kind, name = parse_destination(destination)
    escaped = _NEEDS_ESCAPE.sub(lambda match: "".join(f"_{byte:02x}" for byte in match[0].encode()), name)
    return f"{kind}.{escaped}"
