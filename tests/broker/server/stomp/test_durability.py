"""What was confirmed survives a death of the broker; and one STOMP client's messages are another protocol's."""

import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
import stomp
import uvloop

from broker.server.trace.traced_clients import read_trace
from mqlab.client import Int, aio, connect
from mqlab.wire.native.bodies import encode
from mqlab.wire.native.columns import Value
from mqlab.wire.stomp.frames import StompFrame
from table_rows import Row

from .stomp_clients import Client, Process, Raw, broker, frame


def test_what_was_confirmed_survives_kill_9(data: str) -> None:
    """Messages, a durable subscription, and of transactions those that were committed, as a whole."""
    with broker(data) as process:
        with Client(process.port) as client:
            client.subscribe("/topic/t", "mine", durable="true")
        with Client(process.port) as client:
            client.send("/topic/t", b"to a topic", persistent="true")
            _use_transactions(client)
            confirmed = _killed_while_sending(process)
    with broker(data) as process, Client(process.port) as client:
        client.subscribe("/queue/in", "in")
        client.subscribe("/queue/out", "out")
        client.subscribe("/topic/t", "mine", durable="true")
        message = client.message()
        assert (message.body, message.headers["redelivered"]) == (b"reply", "true")
        assert client.bodies(1) == [b"to a topic"]
        assert client.nothing()
        client.subscribe("/queue/q", "q")
        missing = {*confirmed}
        while missing:
            missing.discard(client.message().body)


def _use_transactions(client: Client) -> None:
    """One is committed and one is not; the client goes on."""
    client.send("/queue/in", b"request", persistent="true")
    client.subscribe("/queue/in", ack="client")
    message = client.message()
    client.c.begin("done")
    client.send("/queue/out", b"reply", persistent="true", transaction="done")
    client.ack(message, "done")
    client.c.commit("done", receipt="committed")
    client.receipt("committed")
    client.c.begin("not done")
    client.send("/queue/out", b"never", persistent="true", transaction="not done")


def _killed_while_sending(process: Process) -> list[bytes]:
    """What was confirmed by then."""
    confirmed: list[bytes] = []
    enough = threading.Event()

    def send() -> None:
        with suppress(EOFError, stomp.exception.StompException, OSError), Client(process.port) as client:
            while True:
                body = b"%d" % len(confirmed)
                client.send("/queue/q", body, persistent="true")
                confirmed.append(body)
                if len(confirmed) == 50:
                    enough.set()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    assert enough.wait(240)
    process.kill()
    sending.join(240)
    assert not sending.is_alive()
    return confirmed


def test_many_messages_in_one_write_are_all_confirmed(process: Process, name: str) -> None:
    """As batches, whatever their headers; in order, and each receipt once."""
    rows = [
        frame("SEND", b"%04d" % number, destination=f"/queue/{name}", persistent="true", receipt=f"{number:04d}",
              **{"correlation-id": f"c{number:04d}", "kind": "even" if number % 2 else "odd"})
        for number in range(500)
    ]  # fmt: skip
    with Raw(process.port) as raw:
        raw.bytes(b"".join(rows))
        assert [raw.read().headers["receipt-id"] for _ in rows] == [f"{number:04d}" for number in range(500)]
        raw.write("SUBSCRIBE", id="s", destination=f"/queue/{name}", ack="client", prefetch="200")
        heard: list[StompFrame] = []
        while len(heard) < len(rows):
            heard.append(raw.read())
            if len(heard) % 100 == 0:
                raw.write("ACK", id=heard[-1].headers["ack"])
        assert [one.body for one in heard] == [b"%04d" % number for number in range(500)]
        assert [one.headers["correlation-id"] for one in heard] == [f"c{number:04d}" for number in range(500)]
        assert [one.headers["kind"] for one in heard[:2]] == ["odd", "even"]
        raw.bytes(b"".join(frame("ACK", id=one.headers["ack"]) for one in heard))
        raw.write("DISCONNECT", receipt="bye")
        assert raw.read().headers["receipt-id"] == "bye"
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}")
        assert client.nothing()


class TestWithNativeClients:
    def test_what_a_stomp_client_sends(self, process: Process, name: str) -> None:
        with Client(process.port) as client, connect(f"tcp:127.0.0.1:{process.port}") as native:
            said = {
                "correlation-id": "c", "reply-to": "/queue/answers", "type": "t", "priority": "8", "persistent": "true",
                "JMSXGroupID": "g", "timestamp": "1700000000000", "content-type": "text/plain", "a-b": "c",
            }  # fmt: skip
            client.send(f"/queue/{name}", b"hello", **said)
            message = native.session().consumer(f"queue:{name}").receive(timeout=240)
            assert message is not None
            told = (message.body, message.correlation_id, message.reply_to, message.type, message.priority)
            assert told == (b"hello", "c", "queue:answers", "t", 8)
            assert (message.group, message.timestamp, message.persistent) == ("g", 1700000000000, True)
            assert message.properties == {"content_type": "text/plain", "a_HYPHEN_b": "c"}

    def test_what_a_native_client_sends(self, process: Process, name: str) -> None:
        with Client(process.port) as client, connect(f"tcp:127.0.0.1:{process.port}") as native:
            client.subscribe(f"/queue/{name}", selector="size > 6 AND fine")
            properties: dict[str, Value] = {"size": Int(7), "fine": True, "text": "a:b\nc\0d", "ratio": 0.5}
            properties["destination"] = "x"
            producer = native.session().producer(f"queue:{name}")
            producer.send(b"to\0stomp", correlation_id="c", reply_to="queue:answers", properties=properties)
            message = client.message()
            assert message.body == b"to\0stomp"
            expected = {"size": "7", "fine": "true", "text": "a:b\nc d", "ratio": "0.5", "reply-to": "/queue/answers"}
            assert {name: message.headers[name] for name in expected} == expected
            assert message.headers["destination"] == f"/queue/{name}"
            assert message.headers["JMSMessageID"].startswith("ID:")

    @pytest.mark.parametrize("rows", [1, 100])
    @pytest.mark.parametrize("version", ["1.0", "1.2"])
    def test_batches(self, process: Process, name: str, rows: int, version: str) -> None:
        with Client(process.port, version) as client, connect(f"tcp:127.0.0.1:{process.port}") as native:
            client.subscribe(f"/topic/{name}")
            producer = native.session().producer(f"topic:{name}")
            producer.send_batch(encode([b"x" * number for number in range(rows)]))
            producer.send_batch(encode([b"%04d" % number for number in range(rows)]))
            assert client.bodies(2 * rows) == [b"x" * n for n in range(rows)] + [b"%04d" % n for n in range(rows)]


def test_a_reply_can_cross_protocols(process: Process, name: str) -> None:
    with Client(process.port) as client, connect(f"tcp:127.0.0.1:{process.port}") as native:
        client.subscribe(f"/queue/{name}")
        answered = threading.Thread(target=_answer, args=(client,))
        answered.start()
        reply = native.session().requester(f"queue:{name}").request(b"?", timeout=240)
        assert reply is not None
        assert reply.body == b"!"
        answered.join(240)


def _answer(client: Client) -> None:
    asked = client.message().headers
    client.send(asked["reply-to"], b"!", **{"correlation-id": asked.get("correlation-id", asked.get("JMSMessageID"))})


@pytest.fixture(scope="module")
def traced() -> Iterator[Process]:
    """Without a folder for data."""
    with broker("--trace=low") as process:
        yield process


def test_the_trace_sees_stomp_like_anything_else(traced: Process) -> None:
    with Client(traced.port, headers={"application": "Shop"}) as client:
        client.subscribe("/queue/q", ack="client")
        client.send("/queue/q", b"x")
        client.ack(client.message())
        with connect(f"tcp:127.0.0.1:{traced.port}") as native:
            told = native.ask("trace")
            assert {"application": "Shop", "level": "low", "connections": 1} in told["applications"]
            records = uvloop.run(_records(traced.port))
    seen = [(one["operation"], one["destination"]) for one in records if one["application"] == "Shop"]
    assert {("connect", ""), ("put", "queue:q"), ("get", "queue:q"), ("acknowledge", "queue:q")} <= {*seen}


async def _records(port: int) -> list[Row]:
    connection = await aio.connect(f"tcp:127.0.0.1:{port}")
    try:
        return await read_trace(connection)
    finally:
        await connection.close()


def test_a_broker_without_a_disk_refuses_persistent_messages(traced: Process) -> None:
    with Client(traced.port) as client:
        client.send("/queue/q", b"x")
        client.c.send("/queue/q", b"x", persistent="true", receipt="r")
        assert "was started without a data folder" in client.error()
