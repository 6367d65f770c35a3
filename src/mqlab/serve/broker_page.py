"""The page of a running broker: queues, topics, connections and rates, and the messages of a queue.

The page is a client of the broker, so the broker itself decides what it may see and do. It is read-only unless it has
logged in as a user: then its token allows what the rights of that user allow.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from mqlab.client import blocking
from mqlab.client.errors import MessagingError, RefusedError
from mqlab.client.message_document import message_document
from mqlab.errors import MqlabError
from mqlab.json_values import JsonObject
from mqlab.serve.http import LoopbackHandler, LoopbackServer

# The messages that a look at a queue shows, and the first bytes of each.
MOST_MESSAGES: Final = 50
_MOST_BODY_BYTES: Final = 4096
_MOST_PAGES: Final = 20

_T = TypeVar("_T")


@dataclass(frozen=True)
class BrokerLogin:
    """`user` "": no login, so that the page is read-only."""

    address: str
    user: str = ""
    password: str = ""
    ca: Path | None = None


class BrokerLink:
    """A connection to the broker that all requests share, one at a time; it is opened again after a failure."""

    def __init__(self, login: BrokerLogin) -> None:
        self.login = login
        self._lock = threading.Lock()
        self._connection: blocking.Connection | None = None

    def use(self, action: Callable[[blocking.Connection], _T]) -> _T:
        """Raises MqlabError and OSError: the broker refused the request, or is not there."""
        with self._lock:
            if self._connection is None:
                login = self.login
                self._connection = blocking.connect(
                    login.address, user=login.user, password=login.password, ca=login.ca, application="mqlab page"
                )
            try:
                return action(self._connection)
            except RefusedError:
                raise
            except (MessagingError, OSError):
                self._close()
                raise

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class BrokerPageServer(LoopbackServer):
    def __init__(self, login: BrokerLogin, port: int = 0) -> None:
        super().__init__(_BrokerPageHandler, port)
        self.link = BrokerLink(login)

    def server_close(self) -> None:
        super().server_close()
        self.link.close()


class _BrokerPageHandler(LoopbackHandler):
    server: BrokerPageServer
    static_files = ("broker.html", "broker.js", "page.css")

    def get(self, parts: list[str]) -> None:
        name = self.query().get("name", "")
        match parts:
            case ["api", "overview"]:
                self._answer(overview)
            case ["api", "show"]:
                self._answer(lambda broker: broker.ask("show", name=name))
            case ["api", "browse"]:
                self._answer(lambda broker: browse(broker, name))
            case _:
                super().get(parts)

    def post(self, parts: list[str]) -> None:
        match parts:
            case ["api", ("purge" | "delete") as action]:
                if not self.server.link.login.user:
                    self.send_problem(HTTPStatus.FORBIDDEN, "this page is read-only: start it with --user to log in")
                    return
                name = str(self.body().get("name", ""))
                self._answer(lambda broker: broker.ask(action, name=name))
            case _:
                super().post(parts)

    def _answer(self, action: Callable[[blocking.Connection], JsonObject]) -> None:
        try:
            self.send_json(self.server.link.use(action) | {"user": self.server.link.login.user})
        except (BrokenPipeError, ConnectionResetError):
            raise
        except (MqlabError, OSError) as error:
            # The page shows it: what a user may not do, and that the broker has ended, is part of its view.
            self.send_json({"error": str(error)})


def overview(broker: blocking.Connection) -> JsonObject:
    """The status of the broker, its destinations and its connections: None where the user may not see them."""
    destinations: list[JsonObject] = []
    after = 0
    for _ in range(_MOST_PAGES):
        page = broker.ask("list", after=after)
        destinations += page["destinations"]
        if "more" not in page:
            break
        after = page["more"]
    try:
        connections = broker.ask("connections")["connections"]
    except RefusedError:
        connections = None
    return {"status": broker.status(), "destinations": destinations, "connections": connections}


def browse(broker: blocking.Connection, name: str) -> JsonObject:
    """The first messages of a queue, which stay there."""
    # The broker creates a queue when a browser opens it; `show` fails instead when the queue does not exist.
    broker.ask("show", name=name)
    session = broker.session()
    try:
        found = list(islice(session.browser(name), MOST_MESSAGES + 1))
    finally:
        session.close()
    messages = [message_document(message, most_body_bytes=_MOST_BODY_BYTES) for message in found[:MOST_MESSAGES]]
    return {"messages": messages, "more": len(found) > MOST_MESSAGES}
