"""Tests of programs that use messages, with the fixture `mqlab_broker`: no container, no broker to install.

pip install mqlab pytest python-qpid-proton paho-mqtt stomp.py
pytest examples/testing
"""

import paho.mqtt.publish
import pytest
import stomp

from mqlab.testing import FixtureBroker

proton_utils = pytest.importorskip("proton.utils", reason="python-qpid-proton is not installed")


def test_an_order_is_sent_over_amqp(mqlab_broker: FixtureBroker) -> None:
    from proton import Message

    connection = proton_utils.BlockingConnection(mqlab_broker.url("amqp"))
    connection.create_sender("orders").send(Message("ten apples", properties={"fruit": "apple"}))
    connection.close()
    [order] = mqlab_broker.assert_sent("queue:orders", "ten apples", properties={"fruit": "apple"}, count=1)
    assert not order.persistent


def test_a_meter_reports_over_mqtt(mqlab_broker: FixtureBroker) -> None:
    paho.mqtt.publish.single("meters/7", "230", qos=1, hostname=mqlab_broker.host, port=mqlab_broker.port)
    mqlab_broker.assert_sent("topic:meters.7", "230", persistent=True)
    mqlab_broker.assert_nothing_sent("topic:alarms")


def test_a_receiver_gets_what_another_protocol_sent(mqlab_broker: FixtureBroker) -> None:
    sender = stomp.Connection12([(mqlab_broker.host, mqlab_broker.port)])
    sender.connect(wait=True)
    sender.send("/queue/orders", "ten pears")
    with mqlab_broker.connect() as connection:
        assert connection.session().consumer("queue:orders").receive(timeout=10).body == b"ten pears"
    sender.disconnect()


def test_an_offer_expires_within_a_day(mqlab_broker: FixtureBroker) -> None:
    with mqlab_broker.connect() as connection:
        session = connection.session()
        session.producer("queue:offers").send(b"apples, cheap today", time_to_live=86_400_000)
        mqlab_broker.clock.advance(86_401)
        with pytest.raises(TimeoutError):
            session.consumer("queue:offers").receive(timeout=0.1)


def test_a_reminder_comes_after_an_hour(mqlab_broker: FixtureBroker) -> None:
    with mqlab_broker.connect() as connection:
        session = connection.session()
        reminders = session.consumer("queue:reminders")
        session.producer("queue:reminders").send(b"pay", delay=3_600_000)
        with pytest.raises(TimeoutError):
            reminders.receive(timeout=0.1)
        mqlab_broker.clock.advance(3600)
        assert reminders.receive(timeout=10).body == b"pay"


@pytest.mark.mqlab_broker(process=True, redelivery_limit=1)
def test_an_order_that_fails_goes_to_the_dead_letters(mqlab_broker: FixtureBroker) -> None:
    """A broker in a process of its own, with a setting of `docs/broker.md`."""
    with mqlab_broker.connect() as connection:
        connection.session().producer("queue:orders").send(b"no fruit")
        work = connection.session("transacted")
        work.consumer("queue:orders").receive(timeout=10)
        work.rollback()
        assert connection.session().consumer("queue:dead-letters").receive(timeout=10).body == b"no fruit"
