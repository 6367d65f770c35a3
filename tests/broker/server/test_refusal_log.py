"""What is refused is told in the log, in few lines."""

import time
from pathlib import Path

import pytest

from broker.server.access_users import ask, logged_in, open_link, world
from broker.server.raw_client import Raw, in_loop, local
from mqlab.broker import limits
from mqlab.broker.server.refusal_log import LimitedLog, RefusalLog
from mqlab.broker.server.startup import running
from mqlab.wire.native.frames import Kind


@in_loop
async def test_a_refused_consumer_producer_and_question_have_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with world(tmp_path, monkeypatch) as here:
        raw = await logged_in(here.address, "nobody")
        caplog.clear()
        await open_link(raw, Kind.OPEN_CONSUMER, "queue:shop.orders")
        await open_link(raw, Kind.OPEN_PRODUCER, "topic:shop.news", 51)
        await ask(raw, "purge", name="queue:shop.orders")
        reader = await logged_in(here.address, "read")
        await open_link(reader, Kind.OPEN_CONSUMER, "queue:shop.orders", selector="not a selector at all")
    lines = [line for line in caplog.messages if "is refused" in line]
    beginnings = ["a consumer of nobody", "a producer of nobody", "an admin request of nobody", "a consumer of read"]
    assert len(lines) == 4
    assert all(line.startswith(beginning) for line, beginning in zip(lines, beginnings, strict=True))
    assert "queue:shop.orders" in lines[0]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_refusals_do_not_fill_the_log(
    more: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limited, most = LimitedLog(), limits.LOG_LINES_A_SECOND
    for number in range(most + more):
        limited.warn("line %d", number)
    assert len(caplog.messages) == min(most, most + more)
    now[0] += 1
    limited.warn("later")
    left_out = ["1 more lines like the last ones were omitted"] if more > 0 else []
    assert caplog.messages[min(most, most + more) :] == [*left_out, "later"]


@in_loop
async def test_connections_that_end_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    monotonic = time.monotonic
    async with running(local()) as (_, (address,)):
        began = monotonic()
        for _ in range(3 * limits.LOG_LINES_A_SECOND):
            raw = await Raw.connect(address, greet=False)
            raw.write(b"\xff" * 64)
            await raw.is_ended()
        seconds = int(monotonic()) - int(began) + 1
    lines = [line for line in caplog.messages if line.startswith("connection ended")]
    assert 0 < len(lines) <= seconds * limits.LOG_LINES_A_SECOND


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_ended_connections_are_counted_apart_from_refusals(
    more: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    log, most = RefusalLog(), limits.LOG_LINES_A_SECOND
    for number in range(most + more):
        log.ended(f"reason {number}")
    assert len(caplog.messages) == min(most, most + more)
    log.warn("a refusal")
    assert caplog.messages[-1] == "a refusal"
