"""Commands in one write: every receipt comes, in order, or an ERROR ends the connection.

A model says for each sequence which command is the first that the broker must refuse, if any.
"""

import asyncio
import random
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.server.raw_client import in_loop, local
from mqlab.broker.server.startup import running
from mqlab.wire.address import Address
from mqlab.wire.stomp.decoder import Limits, StompFrameDecoder
from mqlab.wire.stomp.frames import StompFrame

from .stomp_clients import frame

SEED = 13
RANDOM_SEQUENCES = 300
AT_A_TIME = 16

QUEUE, TOPIC = {"destination": "/queue/NAME"}, {"destination": "/topic/NAME", "durable-subscription-name": "d"}
COMMANDS: dict[str, tuple[str, dict[str, str]]] = {
    "subscribe a": ("SUBSCRIBE", {"id": "a", **QUEUE}),
    "subscribe b": ("SUBSCRIBE", {"id": "b", **QUEUE, "ack": "client"}),
    "browse b": ("SUBSCRIBE", {"id": "b", **QUEUE, "browser": "true"}),
    "subscribe a to d": ("SUBSCRIBE", {"id": "a", **TOPIC}),
    "subscribe b to d": ("SUBSCRIBE", {"id": "b", **TOPIC}),
    "subscribe wrongly": ("SUBSCRIBE", {"id": "a", **QUEUE, "selector": "= ="}),
    "subscribe temporary": ("SUBSCRIBE", {"id": "b", "destination": "/temp-queue/mine"}),
    "unsubscribe a": ("UNSUBSCRIBE", {"id": "a"}),
    "unsubscribe b": ("UNSUBSCRIBE", {"id": "b"}),
    "end d by a": ("UNSUBSCRIBE", {"id": "a", "durable-subscription-name": "d"}),
    "send": ("SEND", QUEUE),
    "send persistent": ("SEND", {**QUEUE, "persistent": "true"}),
    "send to topic": ("SEND", {"destination": "/topic/NAME", "persistent": "true"}),
    "send in t": ("SEND", {**QUEUE, "transaction": "t"}),
    "begin": ("BEGIN", {"transaction": "t"}),
    "commit": ("COMMIT", {"transaction": "t"}),
    "abort": ("ABORT", {"transaction": "t"}),
    "ack": ("ACK", {"id": "MESSAGE-1"}),
    "nack": ("NACK", {"id": "MESSAGE-2"}),
    "ack in t": ("ACK", {"id": "MESSAGE-2", "transaction": "t"}),
}
Sequence = tuple[str, ...]


class Model:
    """What a connection has open. `accepts` returns False for a command that the broker must refuse."""

    def __init__(self) -> None:
        # By id, whether it is the durable subscription d.
        self.subscriptions: dict[str, bool] = {}
        self.durable_exists = self.in_transaction = False

    def accepts(self, name: str) -> bool:
        command, headers = COMMANDS[name]
        if command == "SUBSCRIBE":
            return self._subscribe(headers)
        if command == "UNSUBSCRIBE":
            return self._unsubscribe(headers)
        if command == "BEGIN":
            fresh, self.in_transaction = not self.in_transaction, True
            return fresh
        if "transaction" in headers and not self.in_transaction:
            return False
        if command in ("COMMIT", "ABORT"):
            self.in_transaction = False
        return True

    def _subscribe(self, headers: dict[str, str]) -> bool:
        durable = "durable-subscription-name" in headers
        if headers["id"] in self.subscriptions or "selector" in headers:
            return False
        if durable and any(self.subscriptions.values()):
            return False
        self.subscriptions[headers["id"]] = durable
        self.durable_exists |= durable
        return True

    def _unsubscribe(self, headers: dict[str, str]) -> bool:
        ends = "durable-subscription-name" in headers
        known = self.subscriptions.pop(headers["id"], None) is not None
        if not ends:
            return known
        ended = self.durable_exists and not any(self.subscriptions.values())
        self.durable_exists &= not ended
        return ended


class Outcome(NamedTuple):
    receipts: list[str]
    error: StompFrame | None


def refused_at(sequence: Sequence) -> int | None:
    model = Model()
    return next((at for at, name in enumerate(sequence) if not model.accepts(name)), None)


async def pipelined(address: Address, number: int, sequence: Sequence) -> Outcome:
    """All commands and DISCONNECT in one write, after two messages were delivered if an ACK needs them."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        return await _pipelined(reader, writer, number, sequence)
    finally:
        writer.close()


async def _pipelined(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, sequence: Sequence
) -> Outcome:
    destination, splitter, frames = f"n{number}", StompFrameDecoder(Limits(), "1.2"), list[StompFrame]()

    async def next_frame() -> StompFrame | None:
        while not frames:
            data = await reader.read(65536)
            if not data:
                return None
            frames.extend(splitter.feed(data))
        return frames.pop(0)

    writer.write(frame("CONNECT", **{"accept-version": "1.2", "client-id": destination}))
    assert await next_frame() is not None
    delivered = list[str]()
    if any(COMMANDS[name][0] in ("ACK", "NACK") for name in sequence):
        writer.write(frame("SUBSCRIBE", id="s", destination=f"/queue/held.{number}", ack="client-individual"))
        writer.write(frame("SEND", b"1", destination=f"/queue/held.{number}") * 2)
        while len(delivered) < 2:
            message = await next_frame()
            assert message is not None
            delivered.append(message.headers["ack"])
    said = []
    for at, name in enumerate(sequence):
        command, headers = COMMANDS[name]
        values = {key: value.replace("NAME", destination) for key, value in headers.items()}
        if values.get("id", "").startswith("MESSAGE-"):
            values["id"] = delivered[int(values["id"][-1]) - 1]
        said.append(frame(command, b"x" if command == "SEND" else b"", **values, receipt=f"r{at}"))
    writer.write(b"".join(said) + frame("DISCONNECT", receipt="bye"))
    receipts: list[str] = []
    error = None
    while (heard := await next_frame()) is not None:
        if heard.command == "RECEIPT":
            receipts.append(heard.headers["receipt-id"])
        elif heard.command == "ERROR":
            error = heard
    return Outcome(receipts, error)


def check(sequence: Sequence, outcome: Outcome) -> None:
    expected = [*(f"r{at}" for at in range(len(sequence))), "bye"]
    refused = refused_at(sequence)
    if refused is None:
        assert outcome == Outcome(expected, None), sequence
        return
    assert outcome.error is not None, sequence
    assert outcome.error.headers["receipt-id"] == f"r{refused}", sequence
    assert outcome.receipts == expected[: len(outcome.receipts)], sequence
    assert len(outcome.receipts) <= refused, sequence


async def check_all(sequences: list[Sequence], folder: Path) -> None:
    numbered, outcomes = iter([*enumerate(sequences)]), dict[Sequence, Outcome]()

    async def work(address: Address) -> None:
        for number, sequence in numbered:
            try:
                outcomes[sequence] = await asyncio.wait_for(pipelined(address, number, sequence), 240)
            except TimeoutError:
                pytest.fail(f"no end of {sequence}")

    async with running(local(data=folder)) as (_, (address,)):
        await asyncio.gather(*(work(address) for _ in range(AT_A_TIME)))
    for sequence, outcome in outcomes.items():
        check(sequence, outcome)


@in_loop
async def test_every_pair_of_commands_gets_its_receipts_or_an_error(tmp_path: Path) -> None:
    await check_all([*product(COMMANDS, repeat=2)], tmp_path)


@in_loop
async def test_random_sequences_get_their_receipts_or_an_error(tmp_path: Path) -> None:
    """Each command is one that the broker accepts, but for some: a sequence ends with the first that it refuses."""
    chance, sequences = random.Random(SEED), list[Sequence]()
    while len(sequences) < RANDOM_SEQUENCES:
        model, sequence = Model(), list[str]()
        for _ in range(chance.randint(3, 12)):
            name = chance.choice([*COMMANDS])
            before = Model()
            assert all(before.accepts(one) for one in sequence)
            if before.accepts(name) or chance.random() < 0.02:
                sequence.append(name)
                if not model.accepts(name):
                    break
        sequences.append((*sequence,))
    await check_all(sequences, tmp_path)
