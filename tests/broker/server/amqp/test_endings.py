"""The broker ends a link, a session or a connection after the outcomes of the deliveries before."""

from pathlib import Path
from typing import Any

import pytest

from mqlab.broker.policy import Policy
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.wire.amqp10.frames import frame
from mqlab.wire.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Coordinator,
    DeclareTransaction,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Source,
    Target,
    Transfer,
    composite,
    encode_performative,
    parse,
)

from .raw_amqp import RawAmqp, message

# A header that says durable: the outcome of such a message waits for the disk.
DURABLE = b"\0\x53\x70\xc0\x02\x01\x41"
COUNT = 20


def sending(port: int, queue: str) -> RawAmqp:
    """A client with a link to the queue."""
    client = RawAmqp(port)
    client.open()
    client.begin()
    client.sender(queue)
    client.expect(Flow)
    return client


def written(performative: tuple[Any, ...], payload: bytes = b"", channel: int = 0) -> bytes:
    return frame(channel, encode_performative(performative) + payload)


def transfers(channel: int = 0, *, settled: bool = False) -> bytes:
    """Messages that the broker settles, or that the client has."""
    sent = (Transfer(0, number, bytes((number,)), 0, settled) for number in range(COUNT))
    return b"".join(written(transfer, DURABLE + message(), channel) for transfer in sent)


@pytest.mark.parametrize("ending", [Detach(0, True), End(), Close()], ids=lambda ending: type(ending).__name__)
def test_answer_follows_the_outcomes(port: int, queue: str, ending: tuple[Any, ...]) -> None:
    """Qpid JMS ends a session behind its sends, and reports those without an outcome as failed."""
    with sending(port, queue) as client:
        client.socket.sendall(transfers() + written(ending))
        assert client.settled_before(type(ending)) == [*range(COUNT)]


@pytest.mark.parametrize("ending", [Detach(0, True), End(), Close()], ids=lambda ending: type(ending).__name__)
def test_messages_without_an_outcome_arrive_too(port: int, queue: str, ending: tuple[Any, ...]) -> None:
    with sending(port, queue) as client:
        client.socket.sendall(transfers(settled=True) + written(ending))
        assert client.settled_before(type(ending)) == []
    with sending(port, queue) as client:
        client.receiver(queue, 1)
        client.send(Flow(0, 1000, 0, 1000, 1, 0, COUNT))
        assert [client.expect(Transfer).delivery_id for _ in range(COUNT)] == [*range(COUNT)]


def test_commit_is_answered_before_the_end(port: int) -> None:
    with RawAmqp(port) as client:
        client.open()
        client.begin()
        client.send(Attach("c", 0, False, source=composite(Source()), target=composite(Coordinator())))
        client.expect(Flow)
        client.send(Transfer(0, 0, b"0", 0, False), payload=message(composite(DeclareTransaction())))
        transaction = parse(client.expect(Disposition).state).txn_id
        discharge = message(composite(Discharge(transaction, False)))
        client.socket.sendall(written(Transfer(0, 1, b"1", 0, False), discharge) + written(End()))
        assert client.settled_before(End) == [1]


@pytest.mark.parametrize(
    ("ending", "again"),
    [
        (Detach(0, True), Attach("s", 0, False, target=composite(Target("q")), initial_delivery_count=0)),
        (End(), Begin(None, 0, 1000, 1000)),
    ],
    ids=["handle", "channel"],
)
def test_number_may_be_used_again_at_once(
    port: int, queue: str, ending: tuple[Any, ...], again: tuple[Any, ...]
) -> None:
    with sending(port, queue) as client:
        client.socket.sendall(transfers() + written(ending) + written(again))
        assert client.settled_before(type(ending)) == [*range(COUNT)]
        assert isinstance(client.read(), type(again))


def test_frame_on_an_ended_session_closes_the_connection(port: int, queue: str) -> None:
    with sending(port, queue) as client:
        client.socket.sendall(transfers() + written(End()) + written(Flow(0, 10, 0, 10)))
        assert client.closed_with() == "amqp:not-allowed"


def test_session_ends_when_its_messages_have_room(tmp_path: Path) -> None:
    """Other sessions of the connection go on meanwhile: one of them makes the room."""
    settings = Settings(
        name="amqp-room", data=tmp_path, listen=("tcp:127.0.0.1:0",), producer_window=1, policy=Policy(message_limit=2)
    )  # fmt: skip
    with LocalBroker.in_thread(settings) as local, RawAmqp(local.addresses[0].port) as client:
        client.open()
        client.begin(1)
        client.send(Attach("r", 0, True, 1, source=composite(Source("q")), target=composite(Target())), 1)
        client.expect(Attach)
        client.begin()
        client.sender("q")
        client.expect(Flow)
        client.socket.sendall(transfers() + written(End()))
        # The answer to the echo shows that the broker has handled the end.
        client.send(Flow(0, 1000, 0, 1000, echo=True), 1)
        settled = client.settled_before(Flow)
        assert len(settled) < COUNT
        client.send(Flow(0, 1000, 0, 1000, 0, 0, COUNT), 1)
        assert settled + client.settled_before(End) == [*range(COUNT)]
