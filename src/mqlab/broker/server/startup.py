"""Start a broker, listen, and stop it in good order."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import uvloop

from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http.metrics import MetricsEndpoint, start_metrics
from mqlab.broker.server.listener import Listener, listen_at
from mqlab.broker.settings import SettingError, Settings
from mqlab.errors import MqlabError
from mqlab.wire.address import Address


class BrokerFailedError(MqlabError):
    """The broker had to stop."""


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[tuple[Broker, list[Address]]]:
    """A broker in this event loop, and the addresses it listens on (with the ports that were free)."""
    addresses = [Address.parse(text) for text in settings.listen]
    _refuse_strangers(addresses, settings)
    broker = Broker(settings)
    servers: list[tuple[Listener, Address]] = []
    metrics: MetricsEndpoint | None = None
    try:
        if settings.metrics:
            metrics = await start_metrics(broker, settings.metrics)
        for address in addresses:
            servers.append(await listen_at(broker, address))  # noqa: PERF401 - if one fails, the others must be known
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


# Objects of a garbage collection of the youngest: some milliseconds.
_YOUNG_OBJECTS: Final = 10_000


def serve(settings: Settings, announce: Callable[[list[Address]], None]) -> None:
    """Run until SIGINT or SIGTERM. Raises BrokerFailedError if the broker itself could not go on."""
    if not settings.listen:
        raise SettingError("listen: a broker in a process of its own needs an address, such as tcp:127.0.0.1:7766")
    uvloop.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[list[Address]], None]) -> None:
    # Arrow's own allocator keeps tens of MiB that it has freed: a bound on memory would have to allow for them.
    pa.set_memory_pool(pa.system_memory_pool())
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with running(settings) as (broker, bound):
        # What is there now stays: no garbage collection need look at it again. The garbage of a connection that ended
        # is collected while it is young: with Python's own threshold it grows old first, in a storm of connections,
        # and collections that look at everything keep the loop for 100 ms.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
        announce(bound)
        stop = asyncio.ensure_future(stopped.wait())
        await asyncio.wait((stop, broker.failure), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if broker.failure.done():
            raise BrokerFailedError(f"the journal cannot be written: {broker.failure.result()}")


def _refuse_strangers(addresses: list[Address], settings: Settings) -> None:
    for address in addresses:
        if not address.is_local and settings.users is None and not settings.open_to_network:
            raise SettingError(f"{address} can be reached from other machines, and this broker asks for no password; "
                               "listen on 127.0.0.1, give it users (--users FILE), or say --open-to-network "
                               "if that is what you want")  # fmt: skip
        if address.tls and settings.tls_certificate is None:
            raise SettingError(f"{address} needs --tls-certificate and --tls-key")
