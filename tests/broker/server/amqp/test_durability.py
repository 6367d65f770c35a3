"""Confirmed persistent messages and durable subscriptions of AMQP clients survive kill -9."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Message, symbol
from proton.reactor import DurableSubscription
from proton.utils import BlockingConnection

from broker.server.stomp.stomp_clients import broker

SECONDS = 60


def test_messages_and_subscriptions_survive_kill(tmp_path: Path) -> None:
    def opened(port: int) -> Any:  # Any: the types of Proton are incomplete
        return BlockingConnection(f"127.0.0.1:{port}", timeout=SECONDS, container_id="kept")

    with broker(f"--data={tmp_path}") as process:
        client = opened(process.port)
        client.create_receiver("topic://news", name="sub", options=DurableSubscription()).detach()
        for address in ("orders", "topic://news"):
            sent = Message(body={"a": [1]}, durable=True, id="m-1", annotations={symbol("x-opt-a"): 1})
            client.create_sender(address).send(sent)
        process.kill()
    with broker(f"--data={tmp_path}") as process:
        client = opened(process.port)
        links = (
            client.create_receiver("orders", credit=1),
            client.create_receiver("topic://news", name="sub", credit=1, options=DurableSubscription()),
        )
        for receiver in links:
            message = receiver.receive(timeout=SECONDS)
            receiver.accept()
            assert (message.body, message.id, message.durable) == ({"a": [1]}, "m-1", True)
            assert message.annotations == {symbol("x-opt-a"): 1}
        client.close()
