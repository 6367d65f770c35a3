"""All that stomp.py can do, in each version of the protocol and over WebSocket, with a broker in its own process."""

import json

import pytest
import stomp

from mqlab.client import connect

from .stomp_clients import BINARY_WEBSOCKET, CLASSES, VERSIONS, WEBSOCKET, Client, Process

EACH = (*VERSIONS, WEBSOCKET)
SINCE_1_1 = ("1.1", "1.2", WEBSOCKET)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What does not depend on the version is the same over WebSocket."""
    if "version" not in metafunc.fixturenames:
        metafunc.parametrize("usual", ("1.2", WEBSOCKET), indirect=True)


@pytest.fixture(autouse=True)
def usual(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "usual", getattr(request, "param", "1.2"))


@pytest.mark.parametrize("version", EACH)
def test_each_version_is_negotiated(process: Process, version: str) -> None:
    with Client(process.port, version) as client:
        assert version.startswith(client.heard.connected["version"])
        assert client.heard.connected["server"].startswith("mqlab/")
        assert client.heard.connected["session"]


@pytest.mark.parametrize("version", EACH)
def test_queues_are_shared_and_topics_are_copied(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as one, Client(process.port, version) as two:
        for client in (one, two):
            client.subscribe(f"/topic/{name}", "t")
        one.send(f"/topic/{name}", b"to all")
        assert one.bodies(1) == two.bodies(1) == [b"to all"]
        one.subscribe(f"/queue/{name}", "q")
        two.send(f"/queue/{name}", b"to one")
        assert one.message().headers["destination"] == f"/queue/{name}"
        assert two.nothing()


def test_a_subscription_may_have_wildcards(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/topic/{name}.*.gold")
        client.subscribe(f"topic:{name}.#", "all")
        client.send(f"/topic/{name}.metal.gold", b"1")
        found = [client.message() for _ in range(2)]
        told = {(one.headers["subscription"], one.headers["destination"]) for one in found}
        assert told == {("s", f"/topic/{name}.metal.gold"), ("all", f"topic:{name}.metal.gold")}
        client.unsubscribe("all")
        client.send(f"topic:{name}.metal.iron", b"2")
        assert client.nothing()


@pytest.mark.parametrize("version", [*VERSIONS, BINARY_WEBSOCKET])
@pytest.mark.parametrize("body", [b"", b"plain", b"with\0NUL\0\0", "ümläut\n\n".encode(), bytes(range(256)) * 500])
def test_bodies_are_any_bytes(process: Process, version: str, body: bytes, name: str) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        # stomp.py gives the length of what is not empty.
        client.send(f"/queue/{name}", body)
        assert client.message().body == body


@pytest.mark.parametrize("version", EACH)
def test_headers_come_back_as_they_were(process: Process, version: str, name: str) -> None:
    said = {
        "correlation-id": "c1", "type": "order", "priority": "7", "timestamp": "1700000000000", "persistent": "true",
        "JMSXGroupID": "g", "content-type": "text/plain", "colour": "red", "x-trace.id": "7", "9lives": "yes",
    }  # fmt: skip
    if version != "1.0":
        said |= {"escaped": "a:b\\c\nd", "ümlaut": "ä"}
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", b"x", **said)
        got = client.message().headers
        assert {header: got.get(header) for header in said} == said
        assert "redelivered" not in got


@pytest.mark.parametrize("version", EACH)
def test_in_mode_auto_all_that_came_is_done(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", b"1")
        client.message()
        client.sync()
        client.cut()
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        assert client.nothing()


def test_nack_without_requeue_makes_a_dead_letter(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        for body in (b"dead", b"again"):
            client.send(f"/queue/{name}", body, key=name)
        dead, again = (client.message() for _ in range(2))
        client.c.nack(dead.headers["ack"], requeue="false")
        client.c.nack(again.headers["ack"], requeue="true")
        assert client.message().body == b"again"
        assert client.nothing()
        client.subscribe("/queue/dead-letters", "dead", selector=f"key = '{name}'")
        assert client.message().body == b"dead"


@pytest.mark.parametrize("version", EACH)
def test_in_mode_client_an_acknowledgement_is_for_all_before(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client")
        for body in (b"1", b"2", b"3"):
            client.send(f"/queue/{name}", body)
        messages = [client.message() for _ in range(3)]
        client.ack(messages[1])
        client.cut()
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        message = client.message()
        assert (message.body, message.headers["redelivered"]) == (b"3", "true")
        assert client.nothing()


@pytest.mark.parametrize("version", EACH)
def test_in_mode_client_individual_it_is_for_one(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        for body in (b"1", b"2", b"3"):
            client.send(f"/queue/{name}", body)
        messages = [client.message() for _ in range(3)]
        client.ack(messages[1])
        client.cut()
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}")
        assert client.bodies(2) == [b"1", b"3"]
        assert client.nothing()


@pytest.mark.parametrize("version", SINCE_1_1)
@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_what_is_not_accepted_comes_again_until_it_is_a_dead_letter(
    process: Process, version: str, ack: str, name: str
) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}", ack=ack)
        client.send(f"/queue/{name}", b"poison")
        for times in range(1, 11):
            message = client.message()
            assert message.headers.get("JMSXDeliveryCount", "1") == str(times)
            client.nack(message)
        assert client.nothing()
        client.subscribe("/queue/dead-letters", "dead")
        message = client.message()
        assert (message.body, message.headers["destination"]) == (b"poison", f"/queue/{name}")


@pytest.mark.parametrize("version", SINCE_1_1)
def test_a_nack_of_one_leaves_the_others(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}", ack="client-individual")
        for body in (b"1", b"2", b"3"):
            client.send(f"/queue/{name}", body)
        messages = [client.message() for _ in range(3)]
        client.nack(messages[1])
        again = client.message()
        assert (again.body, again.headers["redelivered"]) == (b"2", "true")
        for message in (messages[0], again, messages[2]):
            client.ack(message)
        client.unsubscribe()
        client.subscribe(f"/queue/{name}")
        assert client.nothing()


@pytest.mark.parametrize("version", EACH)
def test_several_transactions_at_a_time(process: Process, version: str, name: str) -> None:
    with Client(process.port, version) as client, Client(process.port, version) as other:
        other.subscribe(f"/queue/{name}.out")
        client.subscribe(f"/queue/{name}.in", ack="client-individual")
        for body in (b"1", b"2", b"3"):
            client.send(f"/queue/{name}.in", body)
        one, two, three = (client.message() for _ in range(3))
        client.c.begin("kept")
        client.c.begin("dropped")
        client.send(f"/queue/{name}.out", b"kept 1", transaction="kept", persistent="true")
        client.send(f"/queue/{name}.out", b"dropped", transaction="dropped")
        client.send(f"/queue/{name}.out", b"kept 2", transaction="kept")
        client.ack(one, "kept")
        client.ack(two, "dropped")
        client.ack(three, "kept")
        assert other.nothing()
        client.c.abort("dropped", receipt="aborted")
        client.receipt("aborted")
        client.c.commit("kept", receipt="committed")
        client.receipt("committed")
        assert other.bodies(2) == [b"kept 1", b"kept 2"]
        assert other.nothing()
        client.cut()
    with Client(process.port, version) as client:
        client.subscribe(f"/queue/{name}.in")
        assert client.bodies(1) == [b"2"]
        assert client.nothing()


def test_what_an_aborted_transaction_acknowledged_can_be_acknowledged_again(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}", ack="client", prefetch="2")
        for body in (b"1", b"2", b"3"):
            client.send(f"/queue/{name}", body)
        _, two = client.message(), client.message()
        client.c.begin("t")
        client.ack(two, "t")
        three = client.message()
        client.c.abort("t")
        client.ack(three)
        client.unsubscribe()
        client.subscribe(f"/queue/{name}")
        assert client.nothing()


def test_a_transaction_keeps_what_it_acknowledged_of_a_subscription_that_ends(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}", ack="client")
        client.send(f"/queue/{name}", b"1")
        client.c.begin("t")
        client.ack(client.message(), "t")
        client.unsubscribe()
        client.subscribe(f"/queue/{name}", "again")
        assert client.nothing()
        client.c.abort("t")
        message = client.message()
        assert (message.body, message.headers["redelivered"]) == (b"1", "true")


def test_receipts_come_in_order_and_for_everything(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.c.subscribe(f"/queue/{name}", "s", "client", receipt="1")
        client.c.send(f"/queue/{name}", b"x", receipt="2", persistent="true")
        client.c.begin("t", receipt="3")
        client.c.send(f"/queue/{name}", b"y", receipt="4", transaction="t")
        client.c.commit("t", receipt="5")
        first = client.message()
        client.c.ack(first.headers["ack"], receipt="6")
        client.c.nack(client.message().headers["ack"], receipt="7")
        client.c.unsubscribe("s", receipt="8")
        for number in range(1, 9):
            client.receipt(str(number))


@pytest.mark.parametrize("version", SINCE_1_1)
def test_heart_beats_go_both_ways(process: Process, version: str) -> None:
    with Client(process.port, version, heartbeats=(1000, 1000)) as client:
        for _ in range(5):
            client.heard.beats.get(timeout=240)
        assert not client.heard.gone.is_set()


def test_selectors_choose_and_bad_ones_are_refused(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}", selector="colour = 'red' AND JMSPriority > 5")
        client.subscribe(f"/topic/{name}", "t", selector="colour IN ('red')")
        for colour in ("blue", "red"):
            client.send(f"/queue/{name}", colour, colour=colour, priority="7")
            client.send(f"/topic/{name}", colour, colour=colour)
        assert client.bodies(2) == [b"red", b"red"]
        assert client.nothing()
        client.c.subscribe(f"/queue/{name}", "bad", selector="colour = = 'red'", receipt="r")
        error = client.error_headers()
        assert error["receipt-id"] == "r"
        assert "selector" in error["message"]


DURABLE: list[dict[str, str]] = [
    {"durable": "true"}, {"durable-subscription-name": "mine"}, {"activemq.subscriptionName": "mine"},
]  # fmt: skip


@pytest.mark.parametrize("said", DURABLE, ids=lambda said: next(iter(said)))
def test_durable_subscriptions_last_until_they_are_ended(process: Process, said: dict[str, str], name: str) -> None:
    about = {"client-id": f"client of {name}"}
    with Client(process.port, headers=about) as client:
        client.subscribe(f"/topic/{name}", "mine", **said)
    with Client(process.port) as other:
        other.send(f"/topic/{name}", b"while away", persistent="true")
    with Client(process.port, headers=about) as client:
        client.subscribe(f"/topic/{name}", "mine", **said)
        assert client.bodies(1) == [b"while away"]
        client.unsubscribe("mine", **said)
    with Client(process.port) as other:
        other.send(f"/topic/{name}", b"nobody gets it")
    with Client(process.port, headers=about) as client:
        client.subscribe(f"/topic/{name}", "mine", **said)
        assert client.nothing()
        client.unsubscribe("mine", **said)


def test_a_temporary_queue_gets_the_replies(process: Process, name: str) -> None:
    with Client(process.port) as asking, Client(process.port) as answering:
        answering.subscribe(f"/queue/{name}")
        asking.subscribe("/temp-queue/replies")
        asking.send(f"/queue/{name}", b"?", **{"reply-to": "/temp-queue/replies", "correlation-id": "7"})
        asked = answering.message().headers
        answering.send(asked["reply-to"], b"!", **{"correlation-id": asked["correlation-id"]})
        reply = asking.message()
        assert (reply.body, reply.headers["correlation-id"]) == (b"!", "7")
        assert reply.headers["destination"] == "/temp-queue/replies"
        answering.c.subscribe(asked["reply-to"], "not mine")
        assert "temporary queue" in answering.error()


def test_a_reply_to_somebody_who_has_left_goes_nowhere(process: Process, name: str) -> None:
    with Client(process.port) as answering:
        answering.subscribe(f"/queue/{name}")
        with Client(process.port) as asking:
            asking.subscribe("/temp-queue/replies")
            asking.send(f"/queue/{name}", b"?", **{"reply-to": "/temp-queue/replies"})
            to = answering.message().headers["reply-to"]
            answering.send(to, b"in time")
            assert asking.bodies(1) == [b"in time"]
        for times in ("first", "second"):
            answering.send(to, b"too late", persistent="true")
            answering.c.begin(times)
            answering.send(to, b"too late", transaction=times)
            answering.c.commit(times, receipt=times)
            answering.receipt(times)


def test_a_queue_that_was_deleted_is_made_again(process: Process, name: str) -> None:
    with Client(process.port) as client, connect(f"tcp:127.0.0.1:{process.port}") as native:
        for _ in range(2):
            client.send(f"/queue/{name}", b"x")
            client.send(f"/queue/{name}", b"y", persistent="true")
            native.ask("delete", name=f"queue:{name}")
        client.send(f"/queue/{name}", b"z")
        client.subscribe(f"/queue/{name}")
        assert client.bodies(1) == [b"z"]


def test_a_browser_sees_all_and_takes_nothing(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.send(f"/queue/{name}", b"1")
        client.subscribe(f"/queue/{name}", browser="true")
        assert client.message().body == b"1"
        assert client.message().headers["browser"] == "end"
        client.unsubscribe()
        client.subscribe(f"/queue/{name}", "taking")
        message = client.message()
        assert (message.body, message.headers.get("redelivered")) == (b"1", None)


def test_priority_expiry_and_delay(process: Process, name: str) -> None:
    with Client(process.port) as client:
        client.send(f"/queue/{name}", b"gone", expires="1")
        client.send(f"/queue/{name}", b"low", priority="1")
        client.send(f"/queue/{name}", b"later", delay="300")
        client.send(f"/queue/{name}", b"high", priority="9", ttl="60000")
        client.subscribe(f"/queue/{name}")
        assert client.bodies(3) == [b"high", b"low", b"later"]


def test_the_prefetch_window_holds_a_consumer_back(process: Process, name: str) -> None:
    with Client(process.port) as slow, Client(process.port) as quick:
        slow.subscribe(f"/queue/{name}", ack="client", **{"prefetch-count": "2"})
        for number in range(5):
            quick.send(f"/queue/{name}", str(number))
        held = [slow.message() for _ in range(2)]
        assert slow.nothing()
        quick.subscribe(f"/queue/{name}")
        assert quick.bodies(3) == [b"2", b"3", b"4"]
        slow.ack(held[1])


def test_what_a_client_may_not_do_is_said_clearly(process: Process) -> None:
    with Client(process.port) as client:
        client.c.send("nowhere", b"x", receipt="r1")
        assert "'nowhere' is not a destination" in client.error()
    with Client(process.port) as client:
        client.c.commit("never begun")
        assert "no transaction 'never begun'" in client.error()
    with Client(process.port) as client:
        client.c.ack("17", receipt="r")
        assert "'17' is not a message of this connection" in client.error()
    with Client(process.port) as client:
        client.c.send("/queue/x", b"x", priority="high")
        assert "priority: 'high' is not a whole number up to 9" in client.error()


def test_a_client_id_is_connected_once(process: Process) -> None:
    again = pytest.raises(stomp.exception.ConnectFailedException)
    with Client(process.port, headers={"client-id": "one"}), again:
        Client(process.port, headers={"client-id": "one"})


def test_text_is_text(process: Process, name: str) -> None:
    """As stomp.py does it, unless it is told otherwise."""
    with Client(process.port, text=True) as client:
        client.subscribe(f"/queue/{name}")
        client.send(f"/queue/{name}", json.dumps({"grüße": [1, 2]}), **{"content-type": "application/json"})
        message = client.message()
        assert json.loads(message.body) == {"grüße": [1, 2]}
        assert message.headers["content-type"] == "application/json"


def test_as_a_context_and_without_a_length(process: Process, name: str) -> None:
    """stomp.py waits for the receipt of its DISCONNECT by itself; a body without a length ends with the NUL."""
    connection = CLASSES[Client.usual]([("127.0.0.1", process.port)], auto_content_length=False)
    with connection:
        connection.connect(wait=True)
        connection.send(f"/queue/{name}", "no length")
    connection.transport.io_thread.join(240)
    assert not connection.is_connected()
    with Client(process.port) as client:
        client.subscribe(f"/queue/{name}")
        assert client.bodies(1) == [b"no length"]


def test_a_durable_name_on_another_topic_replaces_the_subscription_if_nobody_uses_it(
    process: Process, name: str
) -> None:
    about, durable = {"client-id": f"client of {name}"}, {"durable-subscription-name": "d"}
    with Client(process.port, headers=about) as client:
        client.subscribe(f"/topic/{name}.1", "s", **durable)
        client.unsubscribe("s")
        client.send(f"/topic/{name}.1", b"for the former one", persistent="true")
        client.subscribe(f"/topic/{name}.2", "s", **durable)
        for topic in (1, 2):
            client.send(f"/topic/{name}.{topic}", b"%d" % topic, persistent="true")
        assert client.bodies(1) == [b"2"]
        assert client.nothing()
        client.c.subscribe(f"/topic/{name}.1", "another", headers=durable)
        assert "in use" in client.error()
    with Client(process.port, headers=about) as client:
        client.unsubscribe("s", **durable)
