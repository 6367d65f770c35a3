"""Requesters and responders on a real broker: every request answered once, every reply found by its requester."""

from pathlib import Path

import numpy as np
import pytest

from mqlab.events.folder import RunFolder
from mqlab.systems.embedded.system import EmbeddedRunning
from runner.lab import Recount, check_delivery, columns, conducted, rows
from runner.points import asking

POINTS = {
    "plain": asking("plain"),
    "pairs of queues": asking("pairs of queues", destinations=3, requesters=7, responders=4),
    "one responder": asking("one responder", requesters=12, responders=1, size=24),
    "clients": asking("clients", clients=2, requesters=8),
    "shared": asking("shared", connections="shared"),
    "persistent": asking("persistent", persistent=True, size=2048),
    "paced": asking("paced", rate=300.0),
    "fixed": asking("fixed", messages=203),
    "preload": asking("preload", preload=1000, destinations=2, messages=100),
    "fifty": asking("fifty", requesters=50, responders=50),
}
NUMBERS = {name: number for number, name in enumerate(POINTS, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return conducted(tmp_path_factory.mktemp("runs"), [*POINTS.values()])


@pytest.mark.parametrize("name", POINTS)
class TestEveryKind:
    def test_both_legs_are_delivered_exactly_once(self, folder: RunFolder, name: str) -> None:
        (run,) = rows(folder, "runs", run=NUMBERS[name])
        assert (run["status"], run["reason"]) == ("complete", "")
        sends, receipts = columns(folder, "sends", run=NUMBERS[name]), columns(folder, "receipts", run=NUMBERS[name])
        assert check_delivery(folder, NUMBERS[name], POINTS[name].size) == sends["count"].sum()
        assert sends["count"].sum() == receipts["count"].sum() > 0
        assert set(sends["outcome"].tolist()) == {"confirmed"}
        requests = sends["destination"] % 2 == 0
        assert sends["count"][requests].sum() == sends["count"][~requests].sum()

    def test_the_agents_counted_what_the_events_show(self, folder: RunFolder, name: str) -> None:
        (run,) = rows(folder, "runs", run=NUMBERS[name])
        Recount.of(folder, NUMBERS[name]).check_counts(run)
        assert run["counted_round_trips"] > 0

    def test_every_request_is_a_round_trip(self, folder: RunFolder, name: str) -> None:
        trips, sends = columns(folder, "round_trips", run=NUMBERS[name]), columns(folder, "sends", run=NUMBERS[name])
        requests = sends["destination"] % 2 == 0
        found = {(r, s, p, t) for r, s, p, t in zip(*(trips[c].tolist() for c in _TRIP), strict=True)}
        assert found == {tuple(row) for row in zip(*(sends[c][requests].tolist() for c in _SEND), strict=True)}
        assert (trips["t_received"] > trips["t_sent"]).all()
        for requester in range(POINTS[name].requesters):
            mine = trips["requester"] == requester
            assert (np.sort(trips["seq"][mine]) == np.arange(mine.sum())).all()
            order = np.argsort(trips["seq"][mine])
            # One request under way at a time.
            assert (trips["t_sent"][mine][order][1:] >= trips["t_received"][mine][order][:-1]).all()

    def test_who_took_part_is_told_by_number(self, folder: RunFolder, name: str) -> None:
        chosen = POINTS[name]
        asked, first = chosen.requesters, chosen.requesters
        roles = rows(folder, "roles", run=NUMBERS[name])
        found = {(r["role"], r["number"], r["destination"], r["subscription"]) for r in roles}
        pairs = chosen.destinations
        assert found == {
            *(("producer", n, 2 * (n % pairs), 0) for n in range(asked)),
            *(("consumer", n, 2 * (n % pairs) + 1, 0) for n in range(asked)),
            *(("consumer", first + m, 2 * (m % pairs), 0) for m in range(chosen.responders)),
            *(("producer", first + m, 2 * (m % pairs) + 1, 0) for m in range(chosen.responders)),
        }
        assert {r["agent"] for r in roles if r["number"] < first} == {1}
        assert {r["agent"] for r in roles if r["number"] >= first} == {2}


_TRIP = ("requester", "seq", "t_planned", "t_sent")
_SEND = ("producer", "first_seq", "t_planned", "t_sent")


def test_a_fixed_amount_of_work_is_done_and_no_more(folder: RunFolder) -> None:
    run = NUMBERS["fixed"]
    trips = columns(folder, "round_trips", run=run)
    assert len(trips["seq"]) == 203
    shares = [int((trips["requester"] == n).sum()) for n in range(6)]
    assert shares == [34, 34, 34, 34, 34, 33]
    phases = rows(folder, "phases", run=run)
    assert [phase["phase"] for phase in phases] == ["measure", "drain"]
    assert phases[0]["t_end"] == trips["t_received"].max() + 1
    assert phases[0]["t_start"] <= trips["t_sent"].min()


def test_in_the_open_loop_requests_are_planned_by_the_schedule(folder: RunFolder) -> None:
    trips = columns(folder, "round_trips", run=NUMBERS["paced"])
    for requester in range(6):
        planned = np.sort(trips["t_planned"][trips["requester"] == requester])
        assert set(np.diff(planned).tolist()) == {20_000_000}


def test_what_was_preloaded_is_not_part_of_the_events(folder: RunFolder) -> None:
    run = NUMBERS["preload"]
    assert [phase["phase"] for phase in rows(folder, "phases", run=run)] == ["preload", "measure", "drain"]
    assert columns(folder, "sends", run=run)["count"].sum() == 200


def test_persistent_replies_know_when_they_were_confirmed(folder: RunFolder) -> None:
    sends = columns(folder, "sends", run=NUMBERS["persistent"])
    replies = sends["destination"] % 2 == 1
    assert (sends["t_confirmed"][replies] > sends["t_sent"][replies]).all()
    looks = rows(folder, "samples", run=NUMBERS["persistent"], source="broker")
    assert looks[-1]["syncs"] > looks[0]["syncs"]


def test_the_system_says_before_and_after_that_preloaded_messages_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, looks = EmbeddedRunning.depth, list[tuple[str, int]]()

    async def one_less_at_last(self: EmbeddedRunning, queue: str) -> int:
        looks.append((queue, await real(self, queue)))
        return looks[-1][1] - (len(looks) > 3)

    monkeypatch.setattr(EmbeddedRunning, "depth", one_less_at_last)
    folder = conducted(tmp_path, [asking(preload=10, destinations=2, messages=50, drain=0.0)])
    first, second = "queue:run-1-queue-1", "queue:run-1-queue-3"
    assert looks == [(first, 10), (second, 10), (first, 10), (second, 10)]
    (run,) = rows(folder, "runs")
    assert (run["status"], run["reason"]) == ("incomplete", f"{second} has 9 messages where there should be 10")
