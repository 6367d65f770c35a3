"""What a broker prints and writes: no client can forge a line of it, and no password is anywhere in it."""

import asyncio
import base64
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from cli import running_broker
from cli.running_broker import broker_process
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import Rights
from mqlab.broker.security.users import Users
from mqlab.client import aio
from mqlab.client.errors import MessagingError
from mqlab.wire.address import Address
from mqlab.wire.native import frames as native
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.frames import Flag, Kind

from .raw_client import Raw, in_loop

RIGHT, WRONG = "correct-horse-battery", "wrong-horse-battery"
# What a line looks like, and what somebody would like to be taken for one.
LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|WARNING|ERROR|CRITICAL) \S[^\x00-\x1f\x7f-\x9f\u2028\u2029]*"
)
FORGED = "2024-01-01 00:00:00,000 INFO everything is fine"
ODD = [
    f"x\n{FORGED}", f"x\r\n{FORGED}", f"\x1b[2K\x1b[1G{FORGED}", f"x\u2028{FORGED}", f"x\x85{FORGED}", "\u202eenif si",
]  # fmt: skip
# The broker's command, with a log that leaves no line out.
WITH_ALL_LINES = """
import runpy
from mqlab.broker import limits
limits.LOG_LINES_A_SECOND = 1_000_000
runpy.run_module("mqlab", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    rights = Rights()
    for right in ("read", "write", "create", "admin"):
        rights = rights.granted(right, "all")
    made, path = Users.empty(), tmp_path / "users"
    made.add("ann", RIGHT, rights)
    made.write(path)
    return path


async def log_in(address: Address, **said: object) -> str:
    """What a greeting gets that should not be let in."""
    raw = await Raw.connect(address, greet=False)
    raw.write(native.frame(Kind.HELLO, {"version": native.VERSION, **said}))
    return await raw.is_ended()


async def strangers(address: Address) -> list[str]:
    """Wrong ones of all sorts, at the same time: each failure delays the answer to the next."""
    tries = [
        log_in(address, user="ann", password=WRONG),
        log_in(address, user=RIGHT, password="ann"),
        log_in(address, user="ann", password=[RIGHT]),
        log_in(address, user=f"ann{FORGED}", password=WRONG),
        log_in(address, client_id=RIGHT),
        *(log_in(address, user="ann", password=RIGHT, client_id=odd) for odd in ODD),
        *(log_in(address, version=odd, user="ann", password=RIGHT) for odd in ODD),
    ]
    return [*await asyncio.gather(*tries)]


async def members(address: Address) -> list[str]:
    """Somebody who is let in, and names things oddly; what the broker says to that."""
    answers = []
    for odd in ODD:
        for frame in (
            native.frame(Kind.OPEN_PRODUCER, {"destination": f"queue:{odd}"}, session=1, link=1),
            native.frame(Kind.OPEN_CONSUMER, {"destination": "queue:q", "selector": f"'{odd}"}, session=1, link=2),
            native.frame(Kind.ASK, {"ask": odd}, first=1),
            native.frame(Kind.ASK, {"ask": "show", "name": odd}, first=2),
            native.header(Kind.OPEN_PRODUCER, session=1, link=9, length=len(odd.encode())) + odd.encode(),
        ):
            raw = await Raw.connect(address, greet=False)
            said = {"version": native.VERSION, "user": "ann", "password": RIGHT}
            raw.write(native.frame(Kind.HELLO, said))
            await raw.read_until(Kind.HELLO)
            await raw.open_session()
            raw.write(frame)
            raw.write(_malformed(odd))
            answers.append(await all_that(raw))
    return answers


async def all_that(raw: Raw) -> str:
    """Says the broker, until it ends the connection."""
    heard = ""
    with suppress(EOFError, ConnectionResetError):
        while True:
            heard += bytes((await raw.read()).payload).decode()
    return heard


def _malformed(odd: str) -> bytes:
    """Columns that a message cannot have, named so as to be seen."""
    listed = f"s.{odd}".encode()
    data = len(listed).to_bytes(2, "little") + listed
    opening = native.frame(Kind.OPEN_PRODUCER, {"destination": "queue:odd"}, session=1, link=7)
    flags = Flag.SINGLE | Flag.COLUMNS
    return opening + native.header(Kind.SEND, flags=flags, link=7, first=1, amount=1, length=len(data)) + data


async def an_honest_one(address: Address) -> None:
    async with await aio.connect(str(address), user="ann", password=RIGHT) as connection:
        session = await connection.session()
        producer = await session.producer("queue:q")
        await producer.send_batch(encode([b"one", b"two"]), persistent=True, confirm=True)
    with pytest.raises(MessagingError):
        await aio.connect(str(address), user="ann", password=WRONG)


def test_nobody_can_forge_a_line_and_no_password_appears(
    tmp_path: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_broker, "PROGRAM", (sys.executable, "-c", WITH_ALL_LINES))
    data, trace = tmp_path / "data", tmp_path / "trace"
    heard: list[str] = []

    @in_loop
    async def talk(address: Address) -> None:
        await an_honest_one(address)
        heard.extend(await members(address))
        heard.extend(await strangers(address))

    with broker_process(tmp_path, "--data", data, "--users", users, "--file-trace", trace) as (command, address):
        talk(Address.parse(address))
        command.interrupt(signal.SIGTERM)
        code, printed = command.end()
    assert code == 0
    lines = command.stderr.split("\n")
    assert lines.pop() == ""
    # Each refusal is told, in one line, and nobody writes one of his own.
    assert len(lines) >= len(heard) > 40
    assert [line for line in lines if LINE.fullmatch(line) is None] == []
    assert not [line for line in lines if line.startswith(FORGED[:10])]
    everything = [command.stderr, printed, *heard]
    everything += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (RIGHT, WRONG):
        for form in (secret, base64.b64encode(secret.encode()).decode(), secret.encode().hex()):
            assert [text[:200] for text in everything if form in text] == []
