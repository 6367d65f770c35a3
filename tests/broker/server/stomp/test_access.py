"""Rights over STOMP: each command for users without the right, with it, and on what belongs to another user."""

import asyncio
from pathlib import Path

import pytest

from broker.server.access_users import DENIED, PASSWORD, USERS, open_link, world
from broker.server.raw_client import in_loop, opened
from mqlab.broker.security.commands import ADMIN_REQUESTS, FRAMES, STOMP
from mqlab.wire.address import Address
from mqlab.wire.native.frames import Kind
from mqlab.wire.stomp import frames

READERS, WRITERS, NOBODY = ("read", "all"), ("write", "all"), ()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        opened.append(self)

    @classmethod
    async def connect(cls, address: Address, user: str, **headers: str) -> "Client":
        client = cls(*await asyncio.open_connection(address.host, address.port))
        said = {"accept-version": "1.2", "host": "here", "login": user, "passcode": PASSWORD, **headers}
        client.write("CONNECT", **said)
        assert (await client.read()).startswith("CONNECTED")
        return client

    def write(self, command: str, body: str = "", **headers: str) -> None:
        lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
        self._writer.write(f"{command}\n{lines}\n{body}\0".encode())

    async def read(self) -> str:
        return (await self._reader.readuntil(b"\0")).decode().strip("\n\0")

    async def done(self, command: str, **headers: str) -> str:
        """ "" if the broker gives a receipt, else its ERROR."""
        self.write(command, receipt="r", **headers)
        while not (heard := await self.read()).startswith(("RECEIPT", "ERROR")):
            pass
        return "" if heard.startswith("RECEIPT") else heard

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def test_every_command_of_stomp_is_in_the_table() -> None:
    assert {*STOMP} == {*frames._CLIENT_COMMANDS}
    assert {name for made in STOMP.values() for name in made} <= {*FRAMES, *ADMIN_REQUESTS}


@pytest.mark.parametrize(
    ("command", "headers", "allowed"),
    [
        ("SEND", {"destination": "/queue/shop.orders"}, WRITERS),
        ("SEND", {"destination": "/topic/shop.news"}, WRITERS),
        ("SEND", {"destination": "/queue/shop.nothing"}, ("all",)),
        ("SEND", {"destination": "TEMPORARY"}, USERS),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/shop.orders"}, READERS),
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/shop.orders", "browser": "true"}, READERS),
        ("SUBSCRIBE", {"id": "1", "destination": "/topic/shop.news"}, READERS),
        ("SUBSCRIBE", {"id": "1", "destination": "TEMPORARY"}, NOBODY),
        ("SUBSCRIBE", {"id": "1", "destination": "TEMPORARY", "browser": "true"}, NOBODY),
        ("SUBSCRIBE", {"id": "1", "destination": "/temp-queue/mine"}, USERS),
        ("UNSUBSCRIBE", {"id": "books", "durable": "true"}, NOBODY),
        ("UNSUBSCRIBE", {"id": "app/books", "durable": "true"}, NOBODY),
        ("UNSUBSCRIBE", {"id": "ann/app/books", "durable": "true"}, NOBODY),
        ("BEGIN", {"transaction": "t"}, USERS),
        ("COMMIT", {"transaction": "anns"}, NOBODY),
        ("ABORT", {"transaction": "anns"}, NOBODY),
        ("ACK", {"id": "MESSAGE"}, NOBODY),
        ("NACK", {"id": "MESSAGE"}, NOBODY),
        ("DISCONNECT", {}, USERS),
    ],
)
@in_loop
async def test_commands(
    command: str, headers: dict[str, str], allowed: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as here:
        ann = await Client.connect(here.address, "ann", client_id="stomp")
        await ann.done("BEGIN", transaction="anns")
        ann.write("SUBSCRIBE", id="1", destination="/queue/shop.orders", ack="client-individual")
        message = await ann.read()
        (ack,) = [line.removeprefix("ack:") for line in message.splitlines() if line.startswith("ack:")]
        names = {"TEMPORARY": here.temporary, "MESSAGE": ack}
        said = {key: names.get(value, value) for key, value in headers.items()}
        # Those who are refused come first: others may create what does not exist.
        for user in sorted(USERS, key=allowed.__contains__):
            client = await Client.connect(here.address, user, client_id="app")
            error = await client.done(command, **said)
            assert (error == "") is (user in allowed), (user, error)
            if command in ("SEND", "SUBSCRIBE"):
                assert (DENIED.search(error) is None) is (user in allowed)
            await client.close()
        assert here.messages(here.subscription) >= 1
        assert here.messages("queue:shop.orders") >= 1
        # The message is still ann's.
        assert await ann.done("ACK", id=ack) == ""


@in_loop
async def test_a_reply_over_stomp_reaches_the_temporary_queue_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, monkeypatch) as here:
        client = await Client.connect(here.address, "nobody")
        before = here.messages(here.temporary)
        assert await client.done("SEND", destination=here.temporary) == ""
        assert here.messages(here.temporary) == before + 1
        assert await open_link(here.ann, Kind.OPEN_CONSUMER, here.temporary) == ""
