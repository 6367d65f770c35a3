"""A fixed amount of work: sent, received, or both, on queues and topics; and what else a consumer may want."""

from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.systems.embedded.system import EmbeddedRunning
from runner.lab import Recount, check_delivery, columns, conducted, rows
from runner.points import point

TOTAL = 5000
SELECTOR = f"seq < {TOTAL} AND producer BETWEEN 0 AND 9"
POINTS = {
    "Q send": point("Q send", load="send", consumers=0, producers=3, destinations=2, messages=TOTAL),
    "Q send persistent": point("Q send persistent", load="send", consumers=0, messages=500, persistent=True,
                               send="confirmed", batch=10, size=100),
    "Q receive": point("Q receive", load="receive", producers=2, consumers=3, destinations=2, messages=TOTAL),
    "Q both": point("Q both", producers=2, consumers=2, messages=TOTAL, acknowledge="dups_ok"),
    "Q transacted": point("Q transacted", messages=103, transaction=10, batch=10, send="confirmed"),
    "Q selector": point("Q selector", messages=TOTAL, selector=SELECTOR, acknowledge="client", persistent=True),
    "Q selector, one by one": point("Q selector, one by one", messages=200, selector=SELECTOR, batch=1),
    "Q selector over a preload": point("Q selector over a preload", messages=TOTAL, selector=SELECTOR, preload=70),
    "Q small prefetch": point("Q small prefetch", messages=100, batch=1, prefetch=2),
    "T send": point("T send", domain="topic", load="send", consumers=0, messages=TOTAL),
    "T receive": point("T receive", domain="topic", durable=True, load="receive", consumers=2, messages=TOTAL),
    "T both": point("T both", domain="topic", consumers=3, messages=TOTAL, acknowledge="dups_ok"),
    "T durable": point("T durable", domain="topic", durable=True, consumers=2, messages=TOTAL, persistent=True,
                       selector=SELECTOR),
    "timed, durable": point("timed, durable", domain="topic", durable=True, consumers=2),
    "timed, client": point("timed, client", acknowledge="client", size=100),
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(POINTS, 1)}
FIXED = [name for name, chosen in POINTS.items() if chosen.messages is not None]
RECEIVED = [name for name, chosen in POINTS.items() if chosen.load != "send"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return conducted(tmp_path_factory.mktemp("runs"), [*POINTS.values()])


@pytest.mark.parametrize("name", POINTS)
def test_it_is_complete_and_counted(folder: RunFolder, name: str) -> None:
    (run,) = rows(folder, "runs", run=NUMBERS[name])
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, NUMBERS[name]).check_counts(run)
    assert {row["outcome"] for row in rows(folder, "sends", run=NUMBERS[name])} == {"confirmed"}


@pytest.mark.parametrize("name", RECEIVED)
def test_everything_is_delivered_exactly_once(folder: RunFolder, name: str) -> None:
    sent = check_delivery(folder, NUMBERS[name], POINTS[name].size)
    assert sent == POINTS[name].messages or POINTS[name].messages is None


@pytest.mark.parametrize("name", FIXED)
class TestPhases:
    def test_they_are_what_they_really_were(self, folder: RunFolder, name: str) -> None:
        chosen, run = POINTS[name], NUMBERS[name]
        phases = {phase["phase"]: phase for phase in rows(folder, "phases", run=run)}
        filled = chosen.load == "receive" or chosen.preload > 0
        assert [*phases] == [*(["preload"] if filled else []), "measure", "drain"]
        sends, receipts = columns(folder, "sends", run=run), columns(folder, "receipts", run=run)
        measure = phases["measure"]
        if chosen.load == "send":
            assert measure["t_start"] <= sends["t_sent"].min()
            assert sends["t_confirmed"].max() < measure["t_end"]
            assert sends["t_sent"].max() < measure["t_end"]
        else:
            assert measure["t_end"] == receipts["t_received"].max() + 1
        if chosen.load == "receive":
            assert phases["preload"]["t_start"] <= sends["t_sent"].min()
            assert sends["t_sent"].max() < phases["preload"]["t_end"] <= measure["t_start"]
            assert measure["t_start"] <= receipts["t_received"].min()

    def test_each_side_counts_where_it_works(self, folder: RunFolder, name: str) -> None:
        chosen = POINTS[name]
        assert chosen.messages is not None
        (run,) = rows(folder, "runs", run=NUMBERS[name])
        assert run["counted_sent"] == (0 if chosen.load == "receive" else chosen.messages)
        copies = chosen.consumers if chosen.domain == "topic" else 1
        assert run["counted_received"] == (0 if chosen.load == "send" else chosen.messages * copies)


def test_the_work_is_shared_out_among_the_producers(folder: RunFolder) -> None:
    sends = columns(folder, "sends", run=NUMBERS["Q send"])
    shares = [int(sends["count"][sends["producer"] == n].sum()) for n in range(3)]
    assert shares == [1667, 1667, 1666]


def test_where_nobody_receives_nobody_is_a_consumer(folder: RunFolder) -> None:
    assert {row["role"] for row in rows(folder, "roles", run=NUMBERS["T send"])} == {"producer"}
    assert rows(folder, "receipts", run=NUMBERS["Q send"]) == []


def test_all_of_it_was_on_one_system_that_was_emptied_each_time(folder: RunFolder) -> None:
    """Another start would be another process, whose CPU time begins anew.

    Points whose producers and consumers wait for nothing have limits of their own, and so another system.
    """
    own = {NUMBERS[name] for name, chosen in POINTS.items() if chosen.is_unthrottled and chosen.load == "both"}
    looks = [look for look in rows(folder, "samples", source="broker") if look["run"] not in own]
    assert looks
    times = [look["cpu_seconds"] for look in sorted(looks, key=lambda look: int(look["t"]))]
    assert times == sorted(times)


def test_what_is_left_on_a_queue_must_be_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def seven(*_: object) -> int:
        return 7

    monkeypatch.setattr(EmbeddedRunning, "depth", seven)
    folder = conducted(tmp_path, [point(load="send", consumers=0, messages=100, drain=0.1)], agents=1)
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == (
        "incomplete", "queue:run-1-queue-0 has 7 messages where there should be 100"
    )  # fmt: skip


BROKEN = {
    # Nobody takes the messages, and the queue is full.
    "nothing has moved for 1 s": point(
        "stuck", load="send", consumers=0, messages=10**6, size=1000, settings={"queue_limit": "100KiB"}, drain=0.5
    ),
    "load: receive needs messages: how many there are to receive": point("nothing to receive", load="receive"),
    "preload: the consumers would take the messages, since they have no selector": point("taken", preload=10),
}


def test_what_cannot_be_done_is_given_up_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqlab.runner.run._GRACE_SECONDS", 0.5)
    folder = conducted(tmp_path, [*BROKEN.values()], agents=1)
    assert [(run["status"], run["reason"]) for run in rows(folder, "runs")] == [
        ("incomplete", reason) for reason in BROKEN
    ]


def test_consumers_with_a_brake_receive_no_faster_than_that(tmp_path: Path) -> None:
    chosen = point(producers=2, consumers=2, rate=4000.0, consume_rate=1000.0, measure=0.5, batch=16)
    folder = conducted(tmp_path, [chosen])
    (run,) = rows(folder, "runs")
    assert run["status"] == "complete"
    # At most its rate, the 100 ms it may make up for, and what it may get at once: it is slow, not exact.
    assert 0 < run["counted_received"] <= 1000 * (0.5 + 0.1) + 2 * 25
    assert check_delivery(folder, 1, 12) > run["counted_received"]
