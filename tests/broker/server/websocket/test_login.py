"""A broker with users: over WebSocket, too, nothing is done for who is not let in."""

from pathlib import Path

import pytest

from broker.server.raw_client import in_loop, local
from broker.server.stomp.stomp_clients import frame
from mqlab.broker import limits
from mqlab.broker.security import passwords
from mqlab.broker.security.rights import Rights
from mqlab.broker.security.users import Users
from mqlab.broker.server.startup import running

from .websocket_client import Web

PASSWORD = "ann's own password"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    monkeypatch.setattr(limits, "LOGIN_DELAY_LEAST", 0.01)
    made, path = Users.empty(), tmp_path / "users"
    made.add("ann", PASSWORD, Rights().granted("write", "all").granted("create", "all"))
    made.write(path)
    return path


def connect(password: str) -> bytes:
    return frame("CONNECT", **{"accept-version": "1.2", "login": "ann", "passcode": password})


@pytest.mark.parametrize("together", [True, False])
@in_loop
async def test_a_wrong_password(together: bool, users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        web = await Web.open(address)
        sent = frame("SEND", b"x", destination="/queue/sneaked-in", receipt="r")
        for message in (connect("not hers") + sent,) if together else (connect("not hers"), sent):
            web.write(message)
        error, code = await web.is_ended()
        assert ("wrong user or password" in error, "not hers" in error, code) == (True, False, 1000)
        assert not broker.core.destinations.queues


@in_loop
async def test_what_follows_a_good_password_is_done_after_it(users: Path) -> None:
    """It has as much room as it would have had if it had waited."""
    async with running(local(users=users)) as (broker, (address,)):
        web = await Web.open(address)
        web.write(connect(PASSWORD))
        web.write(frame("SEND", b"x" * (limits.WEBSOCKET_BEFORE_HELLO + 1), destination="/queue/q", receipt="r"))
        assert (await web.text()).startswith("CONNECTED\n")
        assert (await web.text()).startswith("RECEIPT\n")
        assert broker.core.destinations.queues["q"].messages == 1


@in_loop
async def test_rights_are_those_of_the_user(users: Path) -> None:
    async with running(local(users=users)) as (_, (address,)):
        web = await Web.open(address)
        web.write(connect(PASSWORD))
        assert (await web.text()).startswith("CONNECTED\n")
        web.say_frame("SUBSCRIBE", id="1", destination="/queue/q")
        error, _ = await web.is_ended()
        assert "ann has no right to receive from queue:q" in error
