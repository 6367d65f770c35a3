"""What one connection can make the broker hold beyond its consumers and producers is bounded."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlab.broker import limits
from mqlab.broker.server.inprocess.local_broker import LocalBroker
from mqlab.broker.settings import Settings
from mqlab.wire.amqp10.performatives import Attach, Detach, Disposition, Flow, Target, Transfer, composite

from .raw_amqp import RawAmqp, message
from .test_protocol import opened, still_serves

MESSAGE_LIMIT = limits.FRAME_LEAST


@pytest.fixture
def small_port(tmp_path: Path) -> Iterator[int]:
    """A broker that takes small messages only, and has memory for few of them."""
    settings = Settings.flat(
        name="small-amqp", listen=("tcp:127.0.0.1:0",), max_message_size=MESSAGE_LIMIT + limits.AMQP_SECTIONS_ROOM,
        memory_limit=limits.UNFINISHED_SHARE * MESSAGE_LIMIT, data=tmp_path,
    )  # fmt: skip
    with LocalBroker.in_thread(settings) as local:
        yield local.addresses[0].port


def test_unfinished_messages_of_all_links_are_limited(small_port: int) -> None:
    part = bytes(100_000)
    parts = MESSAGE_LIMIT // 2 // len(part) + 1
    with opened(small_port) as client:
        for handle in (0, 1):
            client.sender("q", handle)
            client.expect(Flow)
            for number in range(parts):
                client.send(Transfer(handle, handle, b"t", 0, number == 0, more=True), payload=part)
        assert client.error(Detach) == "amqp:resource-limit-exceeded"
        client.send(Detach(1, True))
        # The message of the other link can go on, and there is room again when it is complete or aborted.
        client.send(Transfer(0, aborted=True))
        client.sender("q", 2)
        client.expect(Flow)
        for _ in range(parts):
            client.send(Transfer(2, 2, b"t", 0, False, more=True), payload=b"")
        whole = message(bytes(MESSAGE_LIMIT - 100))
        for begin in range(0, len(whole), len(part)):
            more = begin + len(part) < len(whole)
            client.send(Transfer(2, more=more), payload=whole[begin : begin + len(part)])
        assert client.expect(Disposition).settled
    assert still_serves(small_port, "other")


def test_links_of_all_sessions_are_limited(port: int, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LINKS_A_CONNECTION", 3)
    with opened(port) as client:
        client.begin(1)
        for handle in (0, 1):
            assert client.sender(queue, handle).target is not None
        client.send(Attach("s2", 2, False, target=composite(Target(queue))), 1)
        assert client.expect(Attach).target is not None
        client.send(Attach("s3", 3, False, target=composite(Target(queue))), 1)
        assert client.error(Detach) == "amqp:resource-limit-exceeded"
        client.send(Detach(3, True), 1)
        client.send(Detach(0, True))
        client.expect(Detach)
        client.send(Attach("s3", 3, False, target=composite(Target(queue))), 1)
        assert client.expect(Attach).target is not None


def test_session_whose_window_is_closed_gets_no_more(port: int, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its link has credit for all messages; those that it cannot be sent are for others."""
    monkeypatch.setattr(limits, "AMQP_UNSENT", 10_000)
    count = 400
    with RawAmqp(port) as closed, opened(port) as other:
        closed.open()
        closed.begin(window=1000)
        closed.receiver(queue)
        closed.send(Flow(0, 1000, 0, 100, 0, 0, 1_000_000))
        closed.send(Flow(0, 1, 0, 100, echo=True))
        closed.expect(Flow)
        other.sender(queue)
        other.expect(Flow)
        for number in range(count):
            other.send(Transfer(0, number, b"t", 0, False), payload=message(bytes(1000)))
            other.expect(Disposition)
        other.receiver(queue, 1)
        # All but those that wait for the window: 10,000 bytes of them, and the one that is sent.
        other.send(Flow(0, 1_000_000, count, 100, 1, 0, count))
        for _ in range(count - 20):
            other.expect(Transfer)
        # The window opens: what has waited comes, and then new messages.
        closed.send(Flow(0, 1_000_000, 0, 100))
        for _ in range(5):
            closed.expect(Transfer)
        other.send(Detach(1, True))
        other.expect(Detach)
        for _ in range(count - 5):
            closed.expect(Transfer)


def test_closed_window_takes_nothing_from_the_queue(port: int, queue: str) -> None:
    with RawAmqp(port) as closed, opened(port) as other:
        closed.open()
        closed.begin(window=0)
        for handle in range(3):
            closed.receiver(queue, handle)
            closed.send(Flow(0, 0, 0, 100, handle, 0, 1_000_000))
        other.sender(queue)
        other.expect(Flow)
        for number in range(30):
            other.send(Transfer(0, number, b"t", 0, False), payload=message(bytes(1000)))
            other.expect(Disposition)
        other.receiver(queue, 1)
        other.send(Flow(0, 1_000_000, 30, 100, 1, 0, 20))
        for _ in range(20):
            other.expect(Transfer)
        closed.send(Flow(0, 1_000_000, 0, 100))
        for _ in range(10):
            closed.expect(Transfer)
