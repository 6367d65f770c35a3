"""Every cell of the state tables: what each stage of a connection does with each kind of input, over real sockets.

Here the expected outcomes are written down once more, by hand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

import pytest

from mqlab.broker.security import passwords
from mqlab.broker.server.amqp import state_table as amqp_table
from mqlab.broker.server.mqtt import state_table as mqtt_table
from mqlab.broker.server.mqtt.connection import MqttServerConnection
from mqlab.broker.server.startup import running
from mqlab.broker.server.stomp import state_table as stomp_table
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
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
)
from mqlab.wire.amqp10.types import Symbol
from mqlab.wire.mqtt.packets import packet, read_varint, text

from .access_users import PASSWORD, write_users
from .mqtt.mqtt_client import CONNACK, DISCONNECT, PINGRESP, PUBREC, PUBREL, acknowledge, connect, publish
from .raw_client import in_loop, local
from .stomp.stomp_clients import frame as stomp

HANDLED, REFUSED, IGNORED = "handled", "refused", "ignored"
Outcomes = Mapping[str, str]


async def conversation(address: Address, first: bytes, answer: bytes, then: bytes) -> bytes:
    """All that the broker writes until it ends the connection. `then` follows the answer to what comes first."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(first)
        data = b"" if not answer else await reader.readuntil(answer)
        writer.write(then)
        return data + await reader.read()
    finally:
        writer.close()


# MQTT

MQTT_LOGIN: Final = connect("c", user="all", password=PASSWORD)
PING, BYE, PONG = b"\xc0\0", b"\xe0\0", b"\xd0\0"
MQTT_INPUTS: Final = {
    "ConnectPacket": MQTT_LOGIN, "PublishRun": publish("shop/t", b"x", 1, 7),
    "AcknowledgementRun": acknowledge(PUBREC, 9), "SubscribePacket": packet(0x82, b"\0\1\0" + text("shop/t") + b"\1"),
    "UnsubscribePacket": packet(0xA2, b"\0\1\0" + text("shop/t")), "PingPacket": PING, "DisconnectPacket": BYE,
}  # fmt: skip
MQTT_OPEN: Final = {kind: REFUSED if kind == "ConnectPacket" else HANDLED for kind in MQTT_INPUTS}
MQTT_STAGES: Final[Mapping[Enum, Outcomes]] = {
    mqtt_table.MqttStage.CONNECT: {kind: HANDLED if kind == "ConnectPacket" else REFUSED for kind in MQTT_INPUTS},
    # The packet waits until the stage is OPEN.
    mqtt_table.MqttStage.LOGIN: MQTT_OPEN,
    mqtt_table.MqttStage.OPEN: MQTT_OPEN,
    mqtt_table.MqttStage.ENDING: dict.fromkeys(MQTT_INPUTS, IGNORED),
}


async def mqtt_outcome(address: Address, stage: Enum, kind: str) -> str:
    begins: dict[Enum, tuple[bytes, bytes]] = {
        mqtt_table.MqttStage.CONNECT: (b"", b""), mqtt_table.MqttStage.LOGIN: (MQTT_LOGIN, b""),
        mqtt_table.MqttStage.OPEN: (MQTT_LOGIN + PING, PONG), mqtt_table.MqttStage.ENDING: (MQTT_LOGIN + BYE, b""),
    }  # fmt: skip
    first, answer = begins[stage]
    data = await conversation(address, first, answer, MQTT_INPUTS[kind] + acknowledge(PUBREL, 3) + PING + BYE)
    kinds = mqtt_kinds(data)
    if stage is mqtt_table.MqttStage.ENDING:
        return IGNORED if kinds == [CONNACK] else HANDLED
    # After DISCONNECT the broker answers nothing. Where it refuses a packet, it handles nothing after it.
    is_last = kind == "DisconnectPacket" and stage is not mqtt_table.MqttStage.CONNECT
    answered = kinds.count(PINGRESP) - (stage is mqtt_table.MqttStage.OPEN)
    return HANDLED if DISCONNECT not in kinds and (is_last or answered) else REFUSED


def mqtt_kinds(data: bytes) -> list[int]:
    """The kind of each packet."""
    kinds, at = [], 0
    while at < len(data):
        size, begin = read_varint(data, at + 1)
        kinds.append(data[at] >> 4)
        at = begin + size
    return kinds


# STOMP

STOMP_LOGIN: Final = stomp("CONNECT", **{"accept-version": "1.2", "login": "all", "passcode": PASSWORD})
STOMP_INPUTS: Final = {
    "CONNECT": STOMP_LOGIN, "STOMP": STOMP_LOGIN.replace(b"CONNECT", b"STOMP", 1),
    "SEND": stomp("SEND", destination="/queue/shop.q"), "ACK": stomp("ACK", id="unknown"),
    "NACK": stomp("NACK", id="unknown"), "SUBSCRIBE": stomp("SUBSCRIBE", id="1", destination="/queue/shop.q"),
    "UNSUBSCRIBE": stomp("UNSUBSCRIBE", id="unknown"), "BEGIN": stomp("BEGIN", transaction="t"),
    "COMMIT": stomp("COMMIT", transaction="unknown"), "ABORT": stomp("ABORT", transaction="unknown"),
    "DISCONNECT": stomp("DISCONNECT"), "MESSAGE": stomp("MESSAGE"),
}  # fmt: skip
STOMP_OPEN: Final = {kind: REFUSED if kind in ("CONNECT", "STOMP", "MESSAGE") else HANDLED for kind in STOMP_INPUTS}
STOMP_STAGES: Final[Mapping[Enum, Outcomes]] = {
    stomp_table.StompStage.CONNECT: {
        kind: HANDLED if kind in ("CONNECT", "STOMP") else REFUSED for kind in STOMP_INPUTS
    },
    stomp_table.StompStage.LOGIN: STOMP_OPEN,
    stomp_table.StompStage.OPEN: STOMP_OPEN,
    stomp_table.StompStage.ENDING: dict.fromkeys(STOMP_INPUTS, IGNORED),
}


async def stomp_outcome(address: Address, stage: Enum, kind: str) -> str:
    bye = stomp("DISCONNECT", receipt="bye")
    begins: dict[Enum, tuple[bytes, bytes]] = {
        stomp_table.StompStage.CONNECT: (b"", b""), stomp_table.StompStage.LOGIN: (STOMP_LOGIN, b""),
        stomp_table.StompStage.OPEN: (STOMP_LOGIN, b"CONNECTED"),
        stomp_table.StompStage.ENDING: (STOMP_LOGIN + bye, b""),
    }  # fmt: skip
    first, answer = begins[stage]
    data = await conversation(address, first, answer, STOMP_INPUTS[kind] + stomp("DISCONNECT", receipt="last"))
    if stage is stomp_table.StompStage.ENDING:
        return IGNORED if b"receipt-id:bye" in data and b"last" not in data and b"ERROR" not in data else HANDLED
    # A frame that names something unknown is refused for that, not for the stage.
    is_refused = b"is not a frame that a client sends now" in data or b"the first frame must be" in data
    return REFUSED if is_refused else HANDLED


# AMQP

CLOSE: Final = frame(0, encode_performative(Close()))
AMQP_OPEN: Final = frame(0, encode_performative(Open("c")))
SASL_PLAIN: Final = SaslInit(Symbol("PLAIN"), f"\0all\0{PASSWORD}".encode())


def attach(handle: int) -> bytes:
    target = composite(Target("queue://shop.q"))
    sender = Attach(f"s{handle}", handle, False, source=composite(Source()), target=target, initial_delivery_count=0)
    return frame(0, encode_performative(sender))


AMQP_INPUTS: Final = {
    "SASL header": SASL_HEADER, "AMQP header": AMQP_HEADER, "other header": b"AMQP\1\1\0\0",
    "SaslInit": frame(0, encode_performative(SASL_PLAIN), SASL_FRAME), "Open": AMQP_OPEN,
    "Begin": frame(1, encode_performative(Begin(None, 0, 100, 100))),
    "Attach": attach(1),
    "Transfer": frame(0, encode_performative(Transfer(0, 0, b"t", 0, settled=True)) + b"\0\x53\x75\xa0\1x"),
    "Flow": frame(0, encode_performative(Flow(0, 1000, 0, 1000))),
    "Disposition": frame(0, encode_performative(Disposition(True, 0, 0, True))),
    "Detach": frame(0, encode_performative(Detach(0, True))), "End": frame(0, encode_performative(End())),
    "Close": CLOSE,
}  # fmt: skip
IN_SESSION: Final = {"Begin", "Attach", "Transfer", "Flow", "Disposition", "Detach", "End", "Close"}


def only(*handled: str) -> Outcomes:
    return {kind: HANDLED if kind in handled else REFUSED for kind in AMQP_INPUTS}


AMQP_STAGES: Final[Mapping[Enum, Outcomes]] = {
    # A broker with users refuses a client without SASL: `test_amqp_without_sasl`.
    amqp_table.AmqpStage.HEADER: only("SASL header"),
    amqp_table.AmqpStage.SASL_INIT: only("SaslInit"),
    # The input waits until the stage is HEADER_AFTER_SASL.
    amqp_table.AmqpStage.LOGIN: only("AMQP header"),
    amqp_table.AmqpStage.HEADER_AFTER_SASL: only("AMQP header"),
    amqp_table.AmqpStage.OPEN: only("Open"),
    amqp_table.AmqpStage.OPENED: only(*IN_SESSION),
    amqp_table.AmqpStage.CLOSED: dict.fromkeys(AMQP_INPUTS, IGNORED),
}
AMQP_STEPS: Final = (SASL_HEADER, AMQP_INPUTS["SaslInit"], AMQP_HEADER, AMQP_OPEN)
LINK: Final = frame(0, encode_performative(Begin(None, 0, 100, 100))) + attach(0)


async def amqp_outcome(address: Address, stage: Enum, kind: str) -> str:
    """The broker's last frame is a close without an error, unless it refused something."""
    stages = amqp_table.AmqpStage
    all_steps: dict[Enum, int] = {
        stages.HEADER: 0, stages.SASL_INIT: 1, stages.LOGIN: 2, stages.HEADER_AFTER_SASL: 2, stages.OPEN: 3,
    }  # fmt: skip
    steps = all_steps.get(stage, 4)
    first = b"".join(AMQP_STEPS[:steps])
    if stage in (stages.OPENED, stages.CLOSED):
        first += LINK
    if stage is stages.CLOSED:
        first += CLOSE
    answer = b"" if stage is not stages.HEADER_AFTER_SASL else b"\x53\x44\xc0\x03\x01\x50\x00"
    following = b"".join(AMQP_STEPS[steps + 1 :])
    data = await conversation(address, first, answer, AMQP_INPUTS[kind] + following + CLOSE)
    is_closed = data.endswith(CLOSE)
    if stage is stages.CLOSED:
        return IGNORED if is_closed and data.count(CLOSE) == 1 else HANDLED
    return HANDLED if is_closed else REFUSED


Ask = Callable[[Address, Enum, str], Awaitable[str]]
CELLS: Final = [
    *((mqtt_outcome, stage, outcomes) for stage, outcomes in MQTT_STAGES.items()),
    *((stomp_outcome, stage, outcomes) for stage, outcomes in STOMP_STAGES.items()),
    *((amqp_outcome, stage, outcomes) for stage, outcomes in AMQP_STAGES.items()),
]


@pytest.mark.parametrize(
    ("ask", "stage", "outcomes"), CELLS, ids=[f"{ask.__name__} {stage.name}" for ask, stage, _ in CELLS]
)
@in_loop
async def test_each_input_in_each_stage(
    ask: Ask, stage: Enum, outcomes: Outcomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passwords, "COST", passwords.Cost(10, 8, 1))
    write_users(tmp_path / "users")
    async with running(local(users=tmp_path / "users")) as (broker, (address,)):
        # On the broker's own address a connection is MQTT only if it begins with CONNECT.
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: MqttServerConnection(broker), "127.0.0.1", 0)
        if stage is mqtt_table.MqttStage.CONNECT:
            address = Address.parse(f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}")
        got = {kind: await ask(address, stage, kind) for kind in outcomes}
        server.close()
        await server.wait_closed()
    assert got == outcomes


def test_each_stage_is_walked() -> None:
    for table, stages in (
        (mqtt_table.TABLE, MQTT_STAGES), (stomp_table.TABLE, STOMP_STAGES), (amqp_table.TABLE, AMQP_STAGES),
    ):  # fmt: skip
        kind_of_stage = type(next(iter(stages)))
        assert {*stages} == {*kind_of_stage}
        waiting = {stage.name for stage in kind_of_stage if stage not in table}
        assert waiting == ({"LOGIN", "CLOSED"} if "CLOSED" in kind_of_stage.__members__ else {"LOGIN", "ENDING"})


@in_loop
async def test_amqp_without_sasl() -> None:
    async with running(local()) as (_, (address,)):
        data = await conversation(address, AMQP_HEADER + AMQP_OPEN, b"", CLOSE)
    assert data.endswith(CLOSE)
