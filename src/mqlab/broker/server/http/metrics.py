"""The broker's counters over HTTP: `/metrics` for Prometheus, `/status.json` and `/destinations.json` for the rest."""

import json
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from mqlab.broker.core import admin
from mqlab.broker.server.access import permitted_pages
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.http.prometheus import PrometheusMetrics
from mqlab.broker.server.http.responses import HttpResponse
from mqlab.broker.server.http.server import HttpServer, Page, PageRenderer, log
from mqlab.broker.settings import SettingError
from mqlab.wire.address import Address, BadAddressError

_JSON: Final = "application/json"


class MetricsEndpoint:
    """The endpoint of one broker."""

    def __init__(self, server: HttpServer, address: str) -> None:
        self._server = server
        # As in http://127.0.0.1:9766
        self.address = address

    async def close(self) -> None:
        await self._server.close()


async def start_metrics(broker: Broker, address_text: str) -> MetricsEndpoint:
    """Serve at HOST:PORT (port 0: a free one). Raises OSError, and SettingError for a bad address."""
    address = _parse_address(address_text)
    server = HttpServer(pages(broker))
    port = await server.listen(address.host, address.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
    endpoint = MetricsEndpoint(server, f"http://{host}:{port}")
    log.info("counters at %s/metrics", endpoint.address)
    return endpoint


def pages(broker: Broker) -> dict[str, Page]:
    metrics = PrometheusMetrics(broker)

    def prometheus() -> PageRenderer:
        registry = CollectorRegistry()
        registry.register(metrics.snapshot())

        def write(accept: str) -> HttpResponse:
            encode, content = choose_encoder(accept)
            return HttpResponse(content, encode(registry))

        return write

    def status() -> PageRenderer:
        return _json(broker.status())

    def destinations() -> PageRenderer:
        # In a broker with users, only its owner, and those whom the owner tells, know the name of a temporary queue.
        private = broker.users is not None
        shown = admin.list_queues(broker.core, lambda queue: not (private and queue.owner is not None))
        return _json({"destinations": shown})

    served = {"/metrics": prometheus, "/status.json": status, "/destinations.json": destinations}
    return permitted_pages(served)


def _json(document: dict[str, object]) -> PageRenderer:
    return lambda _: HttpResponse(_JSON, json.dumps(document).encode())


def _parse_address(text: str) -> Address:
    try:
        address = Address.parse(f"tcp:{text}")
    except BadAddressError:
        raise SettingError(f"metrics: {text[:80]!r} is not HOST:PORT, such as 127.0.0.1:9766") from None
    if not address.is_local:
        raise SettingError(f"metrics: {text[:80]} can be reached from other machines, and the endpoint asks "
                           "for no password; use 127.0.0.1, behind a proxy that asks for one if need be")  # fmt: skip
    return address
