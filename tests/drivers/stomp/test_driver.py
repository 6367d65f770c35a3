import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
import uvloop

from drivers.answers import Answers
from drivers.stomp.fake_broker import FakeBroker, fake_broker
from mqlab.drivers import DRIVERS, DriverConnection, DriverError, ReceiverOptions
from mqlab.drivers.api import Acknowledge, ReceivedBatch
from mqlab.wire.stomp.frames import StompFrame

_BODIES = np.arange(48, dtype=np.uint8).reshape(4, 12)
Test = Callable[[FakeBroker, DriverConnection], Awaitable[None]]


def play(test: Test, server: str = "mqlab") -> None:
    async def played() -> None:
        async with asyncio.timeout(240), fake_broker(server) as one:
            connection = await DRIVERS["stomp"](one.address).connect()
            await test(one, connection)
            await connection.close()

    uvloop.run(played())


@pytest.mark.parametrize(("server", "receipts"), [
    ("mqlab", [3]), ("ActiveMQ-Artemis/2", [3]), ("ActiveMQ/5", [0, 1, 2, 3]),
])  # fmt: skip
def test_a_persistent_batch_is_confirmed_as_the_broker_can_be_trusted(server: str, receipts: list[int]) -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        sender = await connection.sender("queue:a", persistent=True, transacted=False)
        await sender.send(_BODIES, wait=True)
        sends = await one.until("SEND", 4)
        assert [row for row, frame in enumerate(sends) if "receipt" in frame.headers] == receipts
        assert [frame.body for frame in sends] == [bytes(row) for row in _BODIES]
        assert {frame.headers["persistent"] for frame in sends} == {"true"}

    play(test, server)


def test_a_send_returns_when_the_last_receipt_has_come() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        one.answers = False
        sender = await connection.sender("queue:a", persistent=True, transacted=False)
        sending = asyncio.ensure_future(sender.send(_BODIES, wait=True))
        numbers = [frame.headers["receipt"] for frame in await one.until("SEND", 4)]
        for number in reversed(numbers[1:]):
            one.write(StompFrame("RECEIPT", {"receipt-id": number}))
        await asyncio.sleep(0.02)
        assert not sending.done()
        one.write(StompFrame("RECEIPT", {"receipt-id": numbers[0]}))
        await sending

    play(test, "RabbitMQ/3")


def test_what_is_sent_freely_is_taken_when_the_sender_is_closed() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        sender = await connection.sender("topic:a", persistent=False, transacted=False)
        await sender.send(_BODIES, wait=False, properties={"seq": np.arange(8, 12, dtype=np.int64)})
        await sender.close()
        sends = one.frames("SEND")
        assert [frame.headers["seq"] for frame in sends] == ["8", "9", "10", "11"]
        assert {frame.headers["destination"] for frame in sends} == {"/topic/a"}
        assert "persistent" not in sends[0].headers

    play(test)


def test_receipts_tell_what_is_taken_once_somebody_wants_to_know() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        one.answers = False
        sender = await connection.sender("topic:a", persistent=False, transacted=False)
        await sender.send(_BODIES, wait=False)
        await sender.wait_accepted(0)
        for _ in range(2):
            await sender.send(_BODIES, wait=False)
        sends = await one.until("SEND", 12)
        assert [row for row, frame in enumerate(sends) if "receipt" in frame.headers] == [7, 11]
        await sender.wait_accepted(8)
        waiting = asyncio.ensure_future(sender.wait_accepted(7))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        one.write(StompFrame("RECEIPT", {"receipt-id": sends[7].headers["receipt"]}))
        await waiting
        one.write(StompFrame("RECEIPT", {"receipt-id": sends[11].headers["receipt"]}))
        await sender.wait_accepted(0)
        await sender.close()

    play(test)


def test_a_transaction_is_begun_with_its_first_message() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        sender = await connection.sender("queue:a", persistent=False, transacted=True)
        await sender.commit()
        for _ in range(2):
            await sender.send(_BODIES[:1], wait=False)
            await sender.send(_BODIES[1:2], wait=False)
            await sender.commit()
        done = [frame.command for frame in one.frames("BEGIN", "SEND", "COMMIT")]
        assert done == ["BEGIN", "SEND", "SEND", "COMMIT"] * 2
        assert len({frame.headers["transaction"] for frame in one.frames("BEGIN", "SEND", "COMMIT")}) == 1

    play(test)


@pytest.mark.parametrize("acknowledge", ["auto", "client"])
def test_one_acknowledgement_covers_an_arrival_once_the_next_is_asked_for(acknowledge: Acknowledge) -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10, acknowledge))
        one.deliver(*[b"%012d" % number for number in range(20)])
        got = b""
        while len(got) < 240:
            arrival = await receiver.receive()
            got += arrival.bodies.data.tobytes()
        assert got == b"".join(b"%012d" % number for number in range(20))
        one.deliver(b"more")
        assert (await receiver.receive()).bodies.tolist() == [b"more"]
        await receiver.close()
        # Who says so himself has not said it of the last.
        ids = [frame.headers["id"] for frame in one.frames("ACK")]
        assert ids[-2:] == ["m:19", "m:0"] if acknowledge == "auto" else ids[-1] == "m:19"

    play(test)


def test_a_lazy_receiver_acknowledges_at_the_latest_when_nothing_is_there() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10, "dups_ok"))
        one.deliver(b"a")
        await receiver.receive()
        waiting = asyncio.ensure_future(receiver.receive())
        await one.until("ACK")
        one.deliver(b"b")
        await waiting

    play(test)


def test_messages_that_come_again_are_kept_apart() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10))
        one.deliver(b"a", b"b", redelivered=True)
        one.deliver(b"c")
        got: list[ReceivedBatch] = []
        while sum(len(bodies) for bodies, _ in got) < 3:
            got.append(await receiver.receive())
        assert [(body, again) for bodies, again in got for body in bodies.tolist()] == [
            (b"a", True), (b"b", True), (b"c", False),
        ]  # fmt: skip

    play(test)


def test_a_receive_that_is_cancelled_loses_nothing() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10))
        waiting = asyncio.ensure_future(receiver.receive())
        await asyncio.sleep(0)
        waiting.cancel()
        one.deliver(b"a")
        assert (await receiver.receive()).bodies.tolist() == [b"a"]

    play(test)


@pytest.mark.parametrize(("server", "commands"), [
    ("mqlab", ["BEGIN", "ACK", "COMMIT"]), ("ActiveMQ-Artemis/2", ["ACK"]),
])  # fmt: skip
def test_a_commit_of_receipts(server: str, commands: list[str]) -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10, "transacted"))
        one.deliver(b"a")
        await receiver.receive()
        one.deliver(b"b")
        await receiver.receive()
        await receiver.commit()
        done = one.frames("BEGIN", "ACK", "COMMIT")
        assert [frame.command for frame in done] == commands
        assert "receipt" in done[-1].headers

    play(test, server)


def test_a_reply_goes_where_its_request_says_and_is_found_by_its_id() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        requester = await connection.requester("queue:a", "queue:b", persistent=False)
        asking = asyncio.ensure_future(requester.request(b"question", "7-12"))
        [request] = await one.until("SEND")
        [subscription] = one.frames("SUBSCRIBE")
        assert subscription.headers["selector"] == "JMSCorrelationID LIKE '7-%'"
        assert (request.headers["reply-to"], request.headers["correlation-id"]) == ("/queue/b", "7-12")
        one.write(StompFrame("MESSAGE", {"ack": "1", "correlation-id": "7-11"}, b"late"))
        one.write(StompFrame("MESSAGE", {"ack": "2", "correlation-id": "7-12"}, b"answer"))
        assert (await asking).body == b"answer"
        await requester.close()
        assert [frame.headers["id"] for frame in one.frames("ACK")] == ["1", "2"]

    play(test)


def test_a_responder_answers_each_request_and_then_is_done_with_it() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        responder, answers = await connection.responder("queue:a", prefetch=2, persistent=False), Answers()
        one.write(StompFrame("MESSAGE", {"ack": "1", "correlation-id": "x:1", "reply-to": "/queue/b"}, b"question"))
        responder.start(answers)
        await one.until("ACK")
        await responder.stop()
        await responder.close()
        assert [batch.bodies for batch in answers.batches] == [[b"question"]]
        [answer] = one.frames("SEND")
        assert (answer.headers["destination"], answer.headers["correlation-id"]) == ("/queue/b", "x:1")
        assert [frame.command for frame in one.frames("SEND", "ACK")] == ["SEND", "ACK"]

    play(test)


def test_what_the_broker_says_is_wrong_is_told() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10))
        waiting = asyncio.ensure_future(receiver.receive())
        one.write(StompFrame("ERROR", {"message": "no such thing"}, b"in detail\nand more"))
        with pytest.raises(DriverError, match="no such thing: in detail"):
            await waiting

    play(test)


def test_a_broker_that_goes_away_fails_what_waits() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        one.answers = False
        sender = await connection.sender("queue:a", persistent=False, transacted=False)
        sending = asyncio.ensure_future(sender.send(_BODIES, wait=True))
        await one.until("SEND", 4)
        one.writers[-1].transport.abort()
        with pytest.raises(DriverError, match="closed the connection"):
            await sending
        with pytest.raises(DriverError, match="closed the connection"):
            await sender.close()

    play(test)


@pytest.mark.parametrize(("greeting", "says"), [
    (b"ERROR\nmessage:Access refused\n\n\0", "Access refused"),
    (b"CONNECTED\nversion:1.1\n\n\0", "speaks STOMP 1.1"),
    (b"220 smtp.example.org ESMTP ready for you\r\n", "not STOMP"),
])  # fmt: skip
def test_a_connection_that_cannot_be(greeting: bytes, says: str) -> None:
    async def played() -> None:
        async with fake_broker() as one:
            one.greeting = greeting
            with pytest.raises(DriverError, match=says):
                await DRIVERS["stomp"](one.address).connect()

    uvloop.run(played())


def test_nobody_listens_there() -> None:
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:1"):
        uvloop.run(DRIVERS["stomp"]("tcp:127.0.0.1:1").connect())


def test_a_flavour_that_is_none_is_refused() -> None:
    async def played() -> None:
        async with fake_broker() as one:
            with pytest.raises(DriverError, match="'vanilla' is none of activemq, artemis, mqlab, rabbitmq"):
                await DRIVERS["stomp"](one.address, {"flavour": "vanilla"}).connect()

    uvloop.run(played())


def test_a_broker_that_sends_too_much_is_kept_waiting() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(10))
        body = bytes(100_000)
        one.deliver(*[body] * 400)
        got = 0
        while got < 400:
            arrival = await receiver.receive()
            got += len(arrival.bodies)
            # Twice its room, and what one read of the socket brings on top.
            assert len(arrival.bodies) <= 20 + 1024 * 1024 // len(body)
            await asyncio.sleep(0.005)

    play(test)


def test_the_receipt_of_a_commit_is_read_even_if_too_much_waits() -> None:
    async def test(one: FakeBroker, connection: DriverConnection) -> None:
        receiver = await connection.receiver("queue:a", ReceiverOptions(1, "transacted"))
        one.deliver(b"a")
        await receiver.receive()
        one.deliver(*[bytes(100_000)] * 100)
        await asyncio.sleep(0.05)
        await receiver.commit()

    play(test)
