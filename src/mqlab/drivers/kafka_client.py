"""What the drivers' Kafka clients have in common: their settings, threads to wait in, topics."""

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from mqlab.drivers.base import DriverError
from mqlab.wire.address import Address, BadAddressError

# A broker that says nothing for so long is gone.
ANSWER_SECONDS: Final = 30.0
_PARTITIONS: Final = "4"
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9.-]")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Cluster:
    """Where the broker is and what a client must know of it. Its threads are where blocking calls wait."""

    def __init__(self, address: str, options: Mapping[str, str], name: str) -> None:
        try:
            at = Address.parse(address)
        except BadAddressError as error:
            raise DriverError(str(error)) from error
        if not at.host or at.tls:
            raise DriverError(f"{address}: Kafka is spoken over tcp: only")
        self._at = at
        self._settings: dict[str, Any] = {
            "bootstrap.servers": f"{at.host}:{at.port}", "client.id": name or "mqlab", "log_level": 0,
            "socket.nagle.disable": True, "socket.timeout.ms": int(ANSWER_SECONDS * 1000),
            "topic.metadata.refresh.fast.interval.ms": 10, "reconnect.backoff.max.ms": 500,
            "allow.auto.create.topics": False,
        }  # fmt: skip
        self.syncs = options.get("sync", "no") == "yes"
        self.partitions = int(options.get("partitions", _PARTITIONS))
        # One for each call that waits; they are made when they are needed.
        self._threads = ThreadPoolExecutor(256, "kafka")
        self._admin: AdminClient | None = None

    def settings(self, more: Mapping[str, object], failed: Callable[[str], None]) -> dict[str, Any]:
        """Of one client; `failed` is told when the broker is gone, in a thread of the client's user."""

        def error_cb(error: KafkaError) -> None:
            if error.fatal() or error.code() == KafkaError._ALL_BROKERS_DOWN:
                failed(f"the Kafka broker is gone: {error.str()}")

        return {**self._settings, "error_cb": error_cb, **more}

    async def wait(
        self, call: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """A call that blocks, in a thread. Raises DriverError."""
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, partial(call, *arguments, **named))
        except KafkaException as error:
            raise DriverError(f"Kafka: {error.args[0].str()}") from error

    async def open(self) -> None:
        """The library tries for ever to reach a broker: whether there is one is found out first."""
        try:
            _, writer = await asyncio.open_connection(self._at.host, self._at.port)
            writer.close()
        except OSError as error:
            raise DriverError(f"cannot connect to {self._at}: {error}") from error
        self._admin = AdminClient(dict(self._settings))
        await self.wait(self._admin.list_topics, timeout=ANSWER_SECONDS)

    async def make(self, destination: str, *, persistent: bool = False) -> str:
        """The topic of a destination, which is made if it is not there; its name."""
        assert self._admin is not None
        name, admin = topic_of(destination), self._admin
        partitions = self.partitions if destination.startswith("queue:") else 1

        def made() -> None:
            future = admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=ANSWER_SECONDS)[name]
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        await self.wait(made)
        if persistent and self.syncs:
            await self.wait(self._sync, name)
        return name

    def _sync(self, name: str) -> None:
        """Every message of the topic is synced before it is confirmed."""
        assert self._admin is not None
        entry = ConfigEntry("flush.messages", "1", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result()

    async def forget(self, group: str) -> None:
        """The offsets of a group that nobody uses."""
        assert self._admin is not None
        for future in self._admin.delete_consumer_groups([group]).values():
            await self.wait(future.result)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        self._admin = None


def topic_of(destination: str) -> str:
    kind, _, name = destination.partition(":")
    if kind not in ("queue", "topic") or not name:
        raise DriverError(f"{destination!r} is neither queue:NAME nor topic:NAME")
    plain = _NOT_PLAIN.sub(lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), name)
    return f"{kind}.{plain}"
