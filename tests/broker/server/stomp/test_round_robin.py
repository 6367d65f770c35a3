"""A queue deals messages that a client sends one by one to its consumers one by one, however they arrive."""

from contextlib import ExitStack

import pytest

from .stomp_clients import Client, Process, Raw, broker, frame


@pytest.mark.parametrize("selector", [None, "colour = 'red'"])
@pytest.mark.parametrize("how", [{}, {"persistent": "true"}, {"transaction": "t"}])
def test_eight_in_one_write_to_four_consumers_are_two_for_each(
    process: Process, name: str, how: dict[str, str], selector: str | None
) -> None:
    destination = f"/queue/{name}"
    with ExitStack() as stack:
        consumers = [stack.enter_context(Raw(process.port)) for _ in range(4)]
        for consumer in consumers:
            about = {} if selector is None or consumer is consumers[0] else {"selector": selector}
            consumer.write("SUBSCRIBE", id="1", destination=destination, receipt="r", **about)
            consumer.read()
        producer = stack.enter_context(Raw(process.port))
        sends = [frame("SEND", b"%d" % n, destination=destination, colour="red", **how) for n in range(8)]
        begin = frame("BEGIN", transaction="t") if "transaction" in how else b""
        end = frame("COMMIT", transaction="t") if "transaction" in how else b""
        producer.bytes(begin + b"".join(sends) + end)
        got = [[consumer.read().body for _ in range(2)] for consumer in consumers]
        assert got == [[b"%d" % at, b"%d" % (at + 4)] for at in range(4)]


def test_a_full_queue_refuses_the_next_message_and_not_all_that_came_with_it() -> None:
    with broker("--when-full=refuse", "--message-limit=3") as process:
        with Raw(process.port) as raw:
            raw.bytes(b"".join(frame("SEND", b"%d" % n, destination="/queue/q", receipt=f"r{n}") for n in range(8)))
            assert "is full" in raw.is_ended().headers["message"]
        with Client(process.port) as client:
            client.subscribe("/queue/q")
            assert client.bodies(3) == [b"0", b"1", b"2"]
            assert client.nothing()
