"""What changes a broker needs the token and a login."""

import http.client
import json
import threading
from collections.abc import Iterator

import pytest

from mqlab.serve.broker_page import BrokerLogin, BrokerPageServer
from mqlab.serve.http import TOKEN_HEADER


@pytest.fixture
def server() -> Iterator[BrokerPageServer]:
    started = BrokerPageServer(BrokerLogin("tcp:127.0.0.1:1"))
    thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield started
    started.shutdown()
    started.server_close()
    thread.join()


def ask(server: BrokerPageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    try:
        connection.request(method, path, json.dumps({"name": "queue:a"}), headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_change_needs_the_token_and_a_login(server: BrokerPageServer) -> None:
    assert ask(server, "/api/purge", "POST")[0] == 403
    status, text = ask(server, "/api/purge", "POST", **{TOKEN_HEADER: server.token})
    assert (status, "read-only" in text) == (403, True)
    assert ask(server, "/api/status", "POST", **{TOKEN_HEADER: server.token})[0] == 404


def test_a_broker_that_is_not_there_is_an_answer_of_the_page(server: BrokerPageServer) -> None:
    status, text = ask(server, "/api/overview")
    assert status == 200
    assert "error" in json.loads(text)
    assert ask(server, "/", Host="evil.example:80")[0] == 421
