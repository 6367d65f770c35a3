"""The broker's counters over HTTP: `/metrics` for Prometheus, `/status.json` and `/destinations.json` for the rest."""

import json
from typing import Any, Final

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

    def __init__(self, web: HttpServer, address: str) -> None:
        self._web = web
        # As in http://127.0.0.1:9766
        self.address = address

    async def close(self) -> None:
        await self._web.close()


async def start_metrics(broker: Broker, where: str) -> MetricsEndpoint:
    """Serve at HOST:PORT (port 0: a free one). Raises SettingError for an address it cannot have, and OSError."""
    address = _parsed(where)
    web = HttpServer(pages(broker))
    port = await web.listen(address.host, address.port)
    host = f"[{address.host}]" if ":" in address.host else address.host
    metrics = MetricsEndpoint(web, f"http://{host}:{port}")
    log.info("counters at %s/metrics", metrics.address)
    return metrics


def pages(broker: Broker) -> dict[str, Page]:
    families = PrometheusMetrics(broker)

    def prometheus() -> PageRenderer:
        registry = CollectorRegistry()
        registry.register(families.taken())

        def write(accept: str) -> HttpResponse:
            encode, content = choose_encoder(accept)
            return HttpResponse(content, encode(registry))

        return write

    def status() -> PageRenderer:
        return _json(broker.status())

    def destinations() -> PageRenderer:
        # Where there are users, the name of a temporary queue is for its owner and for whom he tells it.
        private = broker.users is not None
        shown = admin.list_queues(broker.core, lambda queue: not (private and queue.owner is not None))
        return _json({"destinations": shown})

    served = {"/metrics": prometheus, "/status.json": status, "/destinations.json": destinations}
    return permitted_pages(served)


def _json(document: dict[str, Any]) -> PageRenderer:
    return lambda _: HttpResponse(_JSON, json.dumps(document).encode())


def _parsed(where: str) -> Address:
    try:
        address = Address.parse(f"tcp:{where}")
    except BadAddressError:
        raise SettingError(f"metrics: {where[:80]!r} is no HOST:PORT, such as 127.0.0.1:9766") from None
    if not address.is_local:
        raise SettingError(f"metrics: {where[:80]} can be reached from other machines, and nobody is asked for a "
                           "password there; use 127.0.0.1, behind a proxy that asks for one if need be")  # fmt: skip
    return address
