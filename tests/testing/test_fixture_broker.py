"""The broker of a test: all protocols, what was sent, and its clock."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import paho.mqtt.client as paho
import pytest
import stomp
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqlab.client import RefusedError
from mqlab.testing import FixtureBroker, running_broker

SECONDS = 60.0
# For what must not come.
SHORT = 0.1


@pytest.fixture(params=[False, True], ids=["in-process", "process"])
def broker(request: pytest.FixtureRequest) -> Iterator[FixtureBroker]:
    with running_broker(process=request.param) as broker:
        yield broker


def mqtt_client(broker: FixtureBroker, name: str, expiry_s: int = 0, *, will_delay_s: int | None = None) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
    if will_delay_s is not None:
        of_will = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call] # paho has no types here
        of_will.WillDelayInterval = will_delay_s
        client.will_set("wills", "gone", 1, properties=of_will)
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = expiry_s
    client.connect(broker.host, broker.port, properties=properties)
    client.loop_start()
    return client


def test_messages_of_all_protocols_are_recorded(broker: FixtureBroker) -> None:
    with broker.connect(client_id="shop") as connection:
        producer = connection.session().producer("queue:orders")
        producer.send(b"native", correlation_id="7", properties={"colour": "red", "size": 3})
    mqtt = mqtt_client(broker, "meter")
    mqtt.publish("meters/7", b"mqtt", qos=1).wait_for_publish(SECONDS)
    mqtt.disconnect()
    mqtt.loop_stop()
    talker = stomp.Connection12([(broker.host, broker.port)])
    talker.connect(wait=True)
    talker.send("/topic/news", b"stomp", **{"reply-to": "/queue/answers"})
    [native] = broker.assert_sent("queue:orders", b"native", correlation_id="7", properties={"size": 3})
    assert (native.client, native.properties, native.text) == ("shop", {"colour": "red", "size": 3}, "native")
    [meter] = broker.assert_sent("topic:meters.7", "mqtt", persistent=True)
    assert meter.client == "meter"
    broker.assert_sent("topic:news", "stomp", reply_to="queue:answers")
    talker.disconnect()
    # Nothing of the broker's own, such as sessions of MQTT.
    assert len(broker.sent()) == 3


def test_amqp_messages_are_recorded(broker: FixtureBroker) -> None:
    utils = pytest.importorskip("proton.utils", reason="python-qpid-proton is not installed")
    from proton import Message

    connection = utils.BlockingConnection(broker.url("amqp"), timeout=SECONDS)
    connection.create_sender("orders").send(Message("one", durable=True, subject="order", priority=7))
    connection.close()
    broker.assert_sent("queue:orders", "one", persistent=True, type="order", priority=7)


def test_a_message_of_a_transaction_counts_when_it_is_committed(broker: FixtureBroker) -> None:
    with broker.connect() as connection:
        session = connection.session("transacted")
        producer = session.producer("queue:orders")
        producer.send(b"dropped")
        session.rollback()
        producer.send(b"kept")
        connection.session().producer("queue:other").send(b"not in it", persistent=True)
        assert [message.body for message in broker.sent()] == [b"not in it"]
        session.commit()
        broker.assert_sent("queue:orders", "kept")
        producer.send(b"never committed")
        session.close()
    assert [message.body for message in broker.sent("queue:orders")] == [b"kept"]


def test_a_message_that_the_broker_refuses_was_not_sent() -> None:
    with running_broker(data=None) as broker, broker.connect() as connection:
        with pytest.raises(RefusedError):
            connection.session().producer("queue:orders").send(b"one", persistent=True)
        broker.assert_nothing_sent()


def test_assertions_name_what_was_sent(broker: FixtureBroker) -> None:
    with broker.connect() as connection:
        producer = connection.session().producer("queue:orders")
        for number in range(25):
            producer.send(b"%d" % number, persistent=True)
    assert [message.body for message in broker.assert_sent("queue:orders", count=25)] == [b"%d" % n for n in range(25)]
    with pytest.raises(AssertionError, match="1 such messages instead of 2"):
        broker.assert_sent("queue:orders", "7", count=2, timeout=SHORT)
    with pytest.raises(AssertionError, match="25 such messages instead of 3"):
        broker.assert_sent("queue:orders", count=3)
    with pytest.raises(AssertionError, match=r"(?s)no such message sent to queue:other.*b'19'\n  and 5 more"):
        broker.assert_sent("queue:other", timeout=SHORT)
    with pytest.raises(AssertionError, match="25 messages were sent"):
        broker.assert_nothing_sent("queue:orders")
    with pytest.raises(TypeError, match="a message has no colour"):
        broker.assert_sent("queue:orders", colour="red")
    broker.forget_sent()
    broker.assert_sent("queue:orders", count=0)
    broker.assert_nothing_sent()


def test_expiry_and_delay_follow_the_clock(broker: FixtureBroker) -> None:
    with broker.connect() as connection:
        session = connection.session()
        consumer = session.consumer("queue:delayed")
        session.producer("queue:delayed").send(b"later", delay=3_600_000)
        session.producer("queue:expiring").send(b"soon gone", time_to_live=60_000, persistent=True)
        session.producer("queue:expiring").send(b"stays", time_to_live=7_200_000, persistent=True)
        with pytest.raises(TimeoutError):
            consumer.receive(timeout=SHORT)
        broker.clock.advance(3_601)
        assert consumer.receive(timeout=SECONDS).body == b"later"
        assert session.consumer("queue:expiring").receive(timeout=SECONDS).body == b"stays"


def test_durations_of_clients_begin_at_the_clock_that_was_set(broker: FixtureBroker) -> None:
    utils = pytest.importorskip("proton.utils", reason="python-qpid-proton is not installed")
    from proton import Message

    broker.clock.advance(86_400)
    begin_ms = broker.clock.now * 1000
    connection = utils.BlockingConnection(broker.url("amqp"), timeout=SECONDS)
    connection.create_sender("amqp").send(Message("one", ttl=600))
    assert connection.create_receiver("amqp").receive(timeout=SECONDS).body == "one"
    connection.close()
    client = mqtt_client(broker, "meter")
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.MessageExpiryInterval = 600
    client.publish("mqtt", b"two", qos=1, properties=properties).wait_for_publish(SECONDS)
    client.disconnect()
    client.loop_stop()
    talker = stomp.Connection12([(broker.host, broker.port)])
    talker.connect(wait=True)
    talker.send("/topic/stomp", b"three", ttl="600000")
    for name in ("queue:amqp", "topic:mqtt", "topic:stomp"):
        [message] = broker.assert_sent(name)
        assert begin_ms + 600_000 <= message.expiration <= broker.clock.now * 1000 + 600_000, name
    talker.disconnect()


def test_a_duration_begins_when_the_message_comes_however_long_the_broker_was_idle() -> None:
    with running_broker() as broker:
        client = mqtt_client(broker, "meter")
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.MessageExpiryInterval = 600
        client.publish("mqtt", b"one", properties=properties)
        broker.assert_sent("topic:mqtt", "one")
        time.sleep(3 * SHORT)
        begin_ms = time.time_ns() // 1_000_000
        client.publish("mqtt", b"two", properties=properties)
        [message] = broker.assert_sent("topic:mqtt", "two")
        assert message.expiration >= begin_ms + 600_000
        client.disconnect()
        client.loop_stop()


def test_a_delay_goes_on_by_the_clock_that_was_set(broker: FixtureBroker) -> None:
    """The rest of the time passes by itself."""
    with broker.connect() as connection:
        session = connection.session()
        consumer = session.consumer("queue:delayed")
        session.producer("queue:delayed").send(b"later", delay=3_600_000)
        broker.clock.advance(3_599)
        assert consumer.receive(timeout=SECONDS).body == b"later"


def test_the_clock_can_be_set_to_a_time_and_back(broker: FixtureBroker) -> None:
    new_year = 1_893_456_000.0
    broker.clock.set(new_year)
    assert new_year <= broker.clock.now < new_year + SECONDS
    with broker.connect() as connection:
        session = connection.session()
        consumer = session.consumer("queue:q")
        broker.clock.advance(-86_400)
        assert new_year - 86_400 <= broker.clock.now < new_year - 86_400 + SECONDS
        session.producer("queue:q").send(b"one")
        assert consumer.receive(timeout=SECONDS).body == b"one"


def test_wills_and_sessions_of_mqtt_follow_the_clock(broker: FixtureBroker) -> None:
    client = mqtt_client(broker, "meter", 7200, will_delay_s=3600)
    client.publish("meters/7", b"on", qos=1).wait_for_publish(SECONDS)
    client.loop_stop()
    # The client dies: no DISCONNECT.
    connection = client.socket()
    assert connection is not None
    connection.close()
    broker.clock.advance(3_500)
    deadline = time.monotonic() + SHORT
    while time.monotonic() < deadline:
        broker.assert_nothing_sent("topic:wills")
    broker.clock.advance(3_700)
    broker.assert_sent("topic:wills", "gone", timeout=SECONDS)


def test_a_broker_in_a_process_ends_with_that_of_the_test() -> None:
    program = """if __name__ == "__main__":
    import time
    from mqlab.testing import running_broker
    with running_broker(process=True) as broker:
        print(broker.port, flush=True)
        time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as test:
        assert test.stdout is not None
        port = int(test.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)):
            os.kill(test.pid, signal.SIGKILL)
            test.wait()
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                return
            time.sleep(0.05)
    pytest.fail("the broker still listens")
