"""Who has not logged in does nothing, whatever frame of MQTT or AMQP 1.0 he sends, and whenever he sends it.

The native protocol has the same tests in test_login.py.
"""

import asyncio
from pathlib import Path

import pytest

from mqlab.broker import limits
from mqlab.broker.security import passwords
from mqlab.broker.server.broker import Broker
from mqlab.broker.server.startup import running
from mqlab.wire.address import Address
from mqlab.wire.amqp10.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslInit,
    SaslResponse,
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
)
from mqlab.wire.amqp10.types import Symbol
from mqlab.wire.mqtt.packets import packet, text

from .access_users import PASSWORD, write_users
from .amqp.raw_amqp import message
from .mqtt.mqtt_client import PUBACK, PUBCOMP, PUBREC, PUBREL, acknowledge, connect, publish
from .raw_client import in_loop, local

MQTT = {
    "PUBLISH": publish("shop/orders", b"x", 1, 1), "retained": publish("shop/orders", b"x", retain=True),
    "SUBSCRIBE": packet(0x82, b"\0\1\0" + text("shop/orders") + b"\1"),
    "UNSUBSCRIBE": packet(0xA2, b"\0\1\0" + text("shop/orders")),
    **{f"acknowledgement {kind}": acknowledge(kind, 1) for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)},
    "PINGREQ": b"\xc0\0", "DISCONNECT": b"\xe0\0", "AUTH": b"\xf0\0",
}  # fmt: skip
OPENED = (Open("x"), Begin(None, 0, 1000, 1000))
AMQP = {
    "open": OPENED[:1], "begin": OPENED[1:], "close": (Close(),), "end": (End(),), "detach": (Detach(0, True),),
    "sender": (*OPENED, Attach("s", 0, False, target=composite(Target("queue")))),
    "receiver": (*OPENED, Attach("r", 0, True, source=composite(Source("queue")))),
    "transfer": (*OPENED, Transfer(0, 0, b"t", 0)), "flow": (Flow(0, 1000, 0, 1000, 0, 0, 10),),
    "disposition": (Disposition(True, 0, 9, True),),
}  # fmt: skip
PLAIN = frame(0, encode_performative(SaslInit(Symbol("PLAIN"), f"\0all\0{PASSWORD}".encode())), SASL_FRAME)
WRONG = frame(0, encode_performative(SaslInit(Symbol("PLAIN"), b"\0all\0a wrong password")), SASL_FRAME)


def amqp_frames(name: str) -> bytes:
    payload = message(b"x") if name == "transfer" else b""
    frames = [frame(0, encode_performative(one)) for one in AMQP[name]]
    return b"".join(frames[:-1]) + frame(0, encode_performative(AMQP[name][-1]) + payload)


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    monkeypatch.setattr(limits, "LOGIN_DELAY_LEAST", 0.01)
    monkeypatch.setattr(limits, "LOGIN_DELAY", 0.02)
    write_users(tmp_path / "users")
    return tmp_path / "users"


async def answer(address: Address, *parts: bytes) -> bytes:
    """All that the broker answers; it ends the connection by itself."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"".join(parts))
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def is_untouched(broker: Broker) -> bool:
    while broker.connections:
        await asyncio.sleep(0.001)
    made = [name for name in broker.core.destinations.queues if not name.startswith("mqtt.")]
    return not (made or broker.core.destinations.routing.topics or broker.mqtt._sessions or len(broker.mqtt.retained))


@pytest.mark.parametrize("name", MQTT)
@in_loop
async def test_mqtt_packet_without_a_login(name: str, users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        greeting = connect("c", user="all", password=PASSWORD)
        # Instead of CONNECT: that is no MQTT, and never becomes it.
        assert (await answer(address, MQTT[name], greeting))[:1] != b"\x20"
        # Behind one without a password, or with a wrong one: the refusal is all that comes.
        assert await answer(address, connect("c"), MQTT[name]) != b""
        refused = await answer(address, connect("c", user="all", password="a wrong password"), MQTT[name])
        assert refused[:1] == b"\x20"
        assert refused[3] == 0x86
        assert await is_untouched(broker)


@pytest.mark.parametrize("name", AMQP)
@in_loop
async def test_amqp_frame_without_a_login(name: str, users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        broker.mqtt.open()
        said = amqp_frames(name)
        # Without SASL: the broker asks for it, and ends the connection.
        assert await answer(address, AMQP_HEADER, said) == SASL_HEADER
        # Instead of the password.
        assert encode_performative(Open("x"))[:3] not in await answer(address, SASL_HEADER, said, PLAIN, AMQP_HEADER)
        # While a password is checked, as a frame of SASL; and behind a wrong one.
        assert encode_performative(Open("x"))[:3] not in await answer(address, SASL_HEADER, PLAIN, said)
        assert encode_performative(Open("x"))[:3] not in await answer(address, SASL_HEADER, WRONG, AMQP_HEADER, said)
        assert await is_untouched(broker)


@in_loop
async def test_amqp_challenge_that_nobody_asked_for(users: Path) -> None:
    async with running(local(users=users)) as (broker, (address,)):
        broker.mqtt.open()
        response = frame(0, encode_performative(SaslResponse(b"x")), SASL_FRAME)
        await answer(address, SASL_HEADER, response, PLAIN)
        assert await is_untouched(broker)
