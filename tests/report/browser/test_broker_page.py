"""The page of a running broker in a browser: queues, connections and messages; read-only unless it has logged in."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from cli.running_broker import broker_process
from mqlab.broker.security.users import Users
from mqlab.client import connect
from mqlab.serve.broker_page import BrokerLogin, BrokerPageServer

from .conftest import Open, Scheme, violations

SECRET = "correct horse"


@contextmanager
def broker_page(login: BrokerLogin) -> Iterator[BrokerPageServer]:
    server = BrokerPageServer(login)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(address: str, user: str = "", password: str = "") -> None:
    with connect(address, user=user, password=password, application="shop") as connection:
        producer = connection.session().producer("queue:orders")
        for number in range(3):
            producer.send(f"order <b>{number}</b>".encode(), properties={"weight": number})
        producer.send(b"\xff\x00")
        connection.session().producer("topic:news").send(b"nobody reads it")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1400, "dark")])
def test_queues_messages_and_connections_are_shown_and_nothing_can_be_changed(
    tmp_path: Path, open_page: Open, width: int, scheme: Scheme
) -> None:
    with broker_process(tmp_path, "--data", tmp_path / "data") as (_, address):
        send(address)
        with broker_page(BrokerLogin(address)) as server:
            page = open_page(server.url, width=width, scheme=scheme)
            expect(page.locator("#said")).to_have_text("read-only: start the page with --user to change anything")
            expect(page.locator("#destinations tr")).to_contain_text("queue:orders")
            expect(page.locator("#connections tr")).to_contain_text("mqlab page")
            page.get_by_label("Look at queue:orders").click()
            rows = page.locator("#messages tr")
            expect(rows).to_have_count(4)
            # A message is a text, whatever it contains.
            expect(rows.nth(1).locator("code")).to_have_text("order <b>1</b>")
            expect(rows.nth(1)).to_contain_text("weight = 1")
            expect(rows.nth(3).locator("code")).to_have_text("base64: /wA=")
            expect(page.get_by_role("button", name="Purge")).to_be_hidden()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert violations(page) == []


def test_rates_come_from_the_counters_of_two_looks(tmp_path: Path, open_page: Open) -> None:
    with broker_process(tmp_path, "--data", tmp_path / "data") as (_, address):
        send(address)
        with broker_page(BrokerLogin(address)) as server, connect(address) as connection:
            producer = connection.session().producer("queue:orders")
            page = open_page(server.url)
            row = page.locator("#destinations tr")
            expect(row.locator("td").nth(5)).to_have_text("0")
            for _ in range(1000):
                producer.send(b"x")
            expect(row.locator("td").nth(1)).to_have_text("1,004")
            expect(row.locator("polyline")).to_be_attached()


def test_a_user_may_do_what_its_rights_allow(tmp_path: Path, open_page: Open) -> None:
    with Users.change(tmp_path / "users.yaml") as users:
        users.add("ann", SECRET)
        for right in ("read", "write", "create", "admin"):
            users.grant("ann", right, "queue:orders")
        users.grant("ann", "write", "topic:news")
        users.grant("ann", "create", "topic:news")
    options = ("--data", tmp_path / "data", "--users", tmp_path / "users.yaml")
    with broker_process(tmp_path, *options) as (_, address):
        send(address, "ann", SECRET)
        with broker_page(BrokerLogin(address, "ann", SECRET)) as server:
            page = open_page(server.url)
            expect(page.locator("#said")).to_have_text("logged in as ann")
            expect(page.locator("#connections-said")).to_contain_text("Only a user with the right admin on all")
            page.get_by_label("Look at queue:orders").click()
            expect(page.locator("#messages tr")).to_have_count(4)
            page.on("dialog", lambda dialog: dialog.accept())
            page.get_by_role("button", name="Purge").click()
            expect(page.locator("#messages tr")).to_have_count(0)
        # The token alone is not enough.
        with broker_page(BrokerLogin(address)) as server:
            page = open_page(server.url)
            expect(page.locator("#said")).to_contain_text("The broker is not available")
