"""Starts a broker with its listeners, and stops it in the right order."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import uvloop

from mqlab.broker.heap import HeapTrimmer, keep_large_blocks_out_of_the_heap
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http.metrics import MetricsEndpoint, start_metrics
from mqlab.broker.server.listener import Listener, listen_at
from mqlab.broker.settings import SettingError, Settings
from mqlab.errors import MqlabError
from mqlab.wire.address import Address


class BrokerFailedError(MqlabError):
    """The broker stopped because of an error."""


@asynccontextmanager
async def running(
    settings: Settings, broker_class: type[Broker] = Broker
) -> AsyncIterator[tuple[Broker, list[Address]]]:
    """Run a broker in this event loop; yield it and the addresses it listens on (port 0: the port that was free)."""
    addresses = [Address.parse(text) for text in settings.listen]
    _check_exposure(addresses, settings)
    broker = broker_class(settings)
    broker.mqtt.start()
    servers: list[tuple[Listener, Address]] = []
    metrics: MetricsEndpoint | None = None
    try:
        if settings.metrics:
            metrics = await start_metrics(broker, settings.metrics)
        for address in addresses:
            servers.append(await listen_at(broker, address))  # noqa: PERF401 - if one fails, the others must be closed
        broker.channels.start()
        yield broker, [actual for _, actual in servers]
    finally:
        await broker.channels.close()
        if metrics is not None:
            await metrics.close()
        for server, address in servers:
            server.close()
            if address.path:
                Path(address.path).unlink(missing_ok=True)
        await broker.close()


# Objects in the youngest generation of the garbage collector: a collection takes some milliseconds.
_YOUNG_OBJECTS: Final = 10_000
# Between two checks for free memory that the process still holds.
_TRIM_SECONDS: Final = 0.5


def serve(settings: Settings, announce: Callable[[list[Address]], None]) -> None:
    """Run until SIGINT or SIGTERM. Raises BrokerFailedError if the journal cannot be written."""
    if not settings.listen:
        raise SettingError("listen: a broker in a process of its own needs an address, such as tcp:127.0.0.1:7766")
    uvloop.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[list[Address]], None]) -> None:
    # Arrow's own allocator keeps tens of MiB that it has freed, which would count against a memory limit.
    pa.set_memory_pool(pa.system_memory_pool())
    keep_large_blocks_out_of_the_heap()
    stopped = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    async with running(settings) as (broker, bound):
        # These objects live as long as the broker: the garbage collector need not visit them again. It collects the
        # garbage of ended connections while it is young: with Python's own threshold it would grow old when many
        # connections end, and collections of all objects would hold the loop for 100 ms.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
        announce(bound)
        stop, trimming = asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(_limit_memory(broker))
        await asyncio.wait((stop, broker.failure), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        trimming.cancel()
        if broker.failure.done():
            raise BrokerFailedError(f"the journal cannot be written: {broker.failure.result()}")


async def _limit_memory(broker: Broker) -> None:
    trimmer = HeapTrimmer(broker.settings.memory_limit)
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        broker.update_clock()
        broker.core.record_growth(trimmer.check())
        broker.run_effects()


def _check_exposure(addresses: list[Address], settings: Settings) -> None:
    for address in addresses:
        if not address.is_local and settings.users is None and not settings.open_to_network:
            raise SettingError(f"{address} can be reached from other machines, and this broker asks for no password; "
                               "listen on 127.0.0.1, give it users (--users FILE), or use "
                               "--open-to-network if that is what you want")  # fmt: skip
        if address.tls and settings.tls_certificate is None:
            raise SettingError(f"{address} needs --tls-certificate and --tls-key")
