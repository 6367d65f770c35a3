"""Real agents, a real broker, and runs of a fraction of a second."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner.agents.assignment import roles_of
from mqlab.runner.agents.pacing import AHEAD_SECONDS
from mqlab.runner.extension import extended
from mqlab.study import Point, load_study
from runner.lab import Recount, check_delivery, columns, conducted, rows
from runner.points import point

SECOND = 10**9
POINTS = {
    "topic": point("topic", domain="topic", producers=2, consumers=3),
    "queue": point("queue", destinations=2, producers=3, consumers=4, size=100),
    "confirmed": point("confirmed", destinations=2, producers=2, consumers=2, size=1024, persistent=True,
                       send="confirmed", batch=1),
    "transacted": point("transacted", destinations=2, producers=2, consumers=2, size=1024, persistent=True,
                        send="confirmed", transaction=10, batch=4),
    "paced": point("paced", producers=2, consumers=2, rate=4000.0),
    "paced transactions": point("paced transactions", send="confirmed", transaction=5, batch=5, rate=500.0),
    "shared": point("shared", destinations=3, producers=3, consumers=3, connections="shared"),
}  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(POINTS, 1)}


@pytest.fixture(scope="module", params=[1, 4])
def agents(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def folder(agents: int, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return conducted(tmp_path_factory.mktemp("runs"), [*POINTS.values()], agents=agents)


def played(folder: RunFolder, name: str) -> Point:
    """The point as its run played it: the lab extends a run if a busy machine stood still for its measure phase."""
    (run,) = rows(folder, "runs", run=NUMBERS[name])
    return Point.from_json(run["parameters"])


@pytest.mark.parametrize("name", POINTS)
class TestEveryKindOfPoint:
    def test_it_is_complete(self, folder: RunFolder, name: str) -> None:
        (run,) = rows(folder, "runs", run=NUMBERS[name])
        assert (run["status"], run["reason"]) == ("complete", "")
        assert (run["scenario"], run["system"], run["repetition"]) == (name, "embedded", 1)
        expected = POINTS[name]
        for _ in range(sum(one["scenario"] == name for one in folder.meta()["extended"])):
            expected = extended(expected)
        assert played(folder, name) == expected

    def test_every_message_sent_was_received_once_and_in_order(self, folder: RunFolder, name: str) -> None:
        assert check_delivery(folder, NUMBERS[name], POINTS[name].size) > 0

    def test_the_agents_counted_what_the_events_show(self, folder: RunFolder, name: str) -> None:
        (run,) = rows(folder, "runs", run=NUMBERS[name])
        found = Recount.of(folder, NUMBERS[name])
        assert (run["counted_sent"], run["counted_received"]) == (found.sent_in_measure, found.received_in_measure)

    def test_the_phases_follow_each_other(self, folder: RunFolder, name: str) -> None:
        phases = rows(folder, "phases", run=NUMBERS[name])
        assert [phase["phase"] for phase in phases] == ["warm-up", "measure", "drain"]
        lengths = [phase["t_end"] - phase["t_start"] for phase in phases]
        planned = played(folder, name).phases
        assert lengths[:2] == [planned.warmup * SECOND, planned.measure * SECOND]
        assert [phase["t_start"] for phase in phases[1:]] == [phase["t_end"] for phase in phases[:2]]

    def test_nothing_leaves_before_the_common_start_and_nothing_is_planned_after_the_end(
        self, folder: RunFolder, name: str
    ) -> None:
        warmup, _, drain = rows(folder, "phases", run=NUMBERS[name])
        sends = columns(folder, "sends", run=NUMBERS[name])
        assert sends["t_sent"].min() >= warmup["t_start"]
        assert sends["t_planned"].min() >= warmup["t_start"]
        assert sends["t_planned"].max() < drain["t_start"]
        assert (sends["t_sent"] >= sends["t_planned"]).all()
        assert columns(folder, "receipts", run=NUMBERS[name])["t_received"].max() <= drain["t_end"]

    def test_every_role_was_played_by_one_agent(self, folder: RunFolder, name: str, agents: int) -> None:
        roles = rows(folder, "roles", run=NUMBERS[name])
        found = [(r["role"], r["number"], r["destination"], r["subscription"]) for r in roles]
        expected = [(r.role, r.number, r.destination, r.subscription) for r in roles_of(POINTS[name])]
        assert sorted(found) == sorted(expected)
        for table, role, column in (("sends", "producer", "producer"), ("receipts", "consumer", "consumer")):
            events = columns(folder, table, run=NUMBERS[name])
            who = {(r["number"], r["agent"]) for r in roles if r["role"] == role}
            assert set(zip(events[column].tolist(), events["agent"].tolist(), strict=True)) == who
        assert {role["agent"] for role in roles} <= set(range(1, agents + 1))

    def test_every_agent_has_a_clock(self, folder: RunFolder, name: str, agents: int) -> None:
        clocks = rows(folder, "clocks", run=NUMBERS[name])
        # One machine has one clock, and there is nothing to doubt.
        assert [(c["agent"], c["offset"], c["error"]) for c in clocks] == [(n + 1, 0, 0) for n in range(agents)]

    def test_the_processes_were_looked_at(self, folder: RunFolder, name: str, agents: int) -> None:
        samples = rows(folder, "samples", run=NUMBERS[name])
        for source in ("broker", *(f"agent-{n + 1}" for n in range(agents))):
            mine = [sample for sample in samples if sample["source"] == source]
            assert len(mine) >= 2
            assert all(a["t"] < b["t"] and a["cpu_seconds"] <= b["cpu_seconds"] for a, b in pairwise(mine))
            assert all(sample["rss"] > 10**6 for sample in mine)
            assert all((sample["syncs"] is None) == (source != "broker") for sample in mine)


def test_the_measure_phases_count_and_the_warm_ups_do_not(folder: RunFolder) -> None:
    """In some of the runs: on a busy machine a phase as short as these may be over before anything has moved."""
    found = [Recount.of(folder, number) for number in NUMBERS.values()]
    assert any(0 < one.sent_in_measure < one.sent for one in found)
    assert any(0 < one.received_in_measure < one.received for one in found)


def sends_of(folder: RunFolder, name: str) -> dict[str, np.ndarray]:
    return columns(folder, "sends", run=NUMBERS[name])


@pytest.mark.parametrize("name", POINTS)
def test_the_outcome_of_every_send_is_known(folder: RunFolder, name: str) -> None:
    sends = sends_of(folder, name)
    assert set(sends["outcome"].tolist()) == {"confirmed"}
    if POINTS[name].send == "confirmed":
        assert (sends["t_confirmed"] > sends["t_sent"]).all()
    else:
        assert (sends["t_confirmed"] == -1).all(), "nobody waited, so nobody knows when"


@pytest.mark.parametrize("name", ["confirmed", "transacted"])
def test_a_producer_that_waits_has_one_send_under_way(folder: RunFolder, name: str) -> None:
    sends = sends_of(folder, name)
    assert set(sends["count"].tolist()) == {POINTS[name].transaction or 1}
    for producer in range(POINTS[name].producers):
        mine = sends["producer"] == producer
        order = np.argsort(sends["first_seq"][mine])
        assert (sends["t_sent"][mine][order][1:] >= sends["t_confirmed"][mine][order][:-1]).all()


def test_persistent_messages_were_synced(folder: RunFolder) -> None:
    looks = rows(folder, "samples", run=NUMBERS["confirmed"], source="broker")
    assert looks[-1]["syncs"] > looks[0]["syncs"]
    assert looks[-1]["sync_seconds"] > looks[0]["sync_seconds"]


@pytest.mark.parametrize("name", ["transacted", "paced transactions"])
def test_receipts_of_a_transaction_know_their_commit(folder: RunFolder, name: str) -> None:
    receipts = columns(folder, "receipts", run=NUMBERS[name])
    committed = receipts["t_acknowledged"] != -1
    assert (receipts["t_acknowledged"][committed] > receipts["t_received"][committed]).all()
    for consumer in range(POINTS[name].consumers):
        mine = receipts["consumer"] == consumer
        open_ones = receipts["ordinal"][mine & ~committed]
        # Once everything has come, a commit that is under way is not waited for: only the last may be missing.
        assert receipts["count"][mine & ~committed].sum() <= POINTS[name].transaction
        assert (np.sort(open_ones) == receipts["ordinal"][mine].max() - np.arange(len(open_ones))[::-1]).all()


@pytest.mark.parametrize("name", ["topic", "queue", "confirmed"])
def test_receipts_outside_a_transaction_have_no_commit(folder: RunFolder, name: str) -> None:
    assert (columns(folder, "receipts", run=NUMBERS[name])["t_acknowledged"] == -1).all()


@pytest.mark.parametrize(("name", "together"), [("paced", 2), ("paced transactions", 5)])
def test_in_the_open_loop_the_planned_times_are_the_schedule(folder: RunFolder, name: str, together: int) -> None:
    chosen, sends = played(folder, name), sends_of(folder, name)
    (warmup,) = rows(folder, "phases", run=NUMBERS[name], phase="warm-up")
    assert chosen.rate is not None
    interval = together / (chosen.rate / chosen.producers) * SECOND
    number = ceil((chosen.phases.warmup + chosen.phases.measure) * SECOND / interval)
    for producer in range(chosen.producers):
        mine = sends["producer"] == producer
        assert (sends["count"][mine] == together).all()
        expected = warmup["t_start"] + np.round(np.arange(number) * interval)
        assert (np.sort(sends["t_planned"][mine]) == expected).all()
    # Neither more nor less than the plan, however busy the machine is.
    assert sends["count"].sum() == number * together * chosen.producers


def test_in_the_closed_loop_a_send_is_planned_when_it_can_be_made(folder: RunFolder) -> None:
    sends = sends_of(folder, "confirmed")
    for producer in range(POINTS["confirmed"].producers):
        mine = sends["producer"] == producer
        order = np.argsort(sends["first_seq"][mine])
        assert (sends["t_planned"][mine][order][1:] >= sends["t_confirmed"][mine][order][:-1]).all()


def test_the_folder_says_how_it_was_made(folder: RunFolder) -> None:
    meta = RunFolder.open(folder.path).meta()
    assert (meta["status"], meta["study"], meta["scale"]) == ("complete", "jms-four-brokers", "quick")
    assert (meta["id"], meta["command"]) == (folder.path.name, "the command")
    assert [system["name"] for system in meta["systems"]] == ["embedded"]
    assert meta["started"] <= meta["finished"]
    assert meta["machine"]["cores"] > 0
    assert "uvloop" in meta["packages"]
    assert load_study(folder.study).id == "jms-four-brokers"
    assert sorted(part.name for part in folder.path.iterdir()) == ["events", "measures", "meta.json", "report", "study"]


def shortened(points: Sequence[Point]) -> list[Point]:
    quick = point()
    return [one.model_copy(update={"phases": quick.phases, "repeat": quick.repeat}) for one in points]


def test_all_scenarios_of_the_built_in_study_deliver_everything(tmp_path: Path) -> None:
    points = shortened(load_study("jms-four-brokers").points("quick", "ABCDEFGH"))
    folder = conducted(tmp_path, points)
    assert [(run["scenario"], run["status"]) for run in rows(folder, "runs")] == [(s, "complete") for s in "ABCDEFGH"]
    for run, one in enumerate(points, 1):
        assert check_delivery(folder, run, one.size) > 0
        found = Recount.of(folder, run)
        (said,) = rows(folder, "runs", run=run)
        assert (said["counted_sent"], said["counted_received"]) == (found.sent_in_measure, found.received_in_measure)


def test_free_producers_that_know_what_is_taken_are_not_far_ahead_and_lose_nothing(tmp_path: Path) -> None:
    free, paced = point("A", domain="topic", producers=2, consumers=2, batch=4096), point("B", rate=4000.0)
    folder = conducted(tmp_path, [free, paced], systems=["embedded:driver=stomp", "embedded"])
    assert [system["ahead_seconds"] for system in folder.meta()["systems"]] == [AHEAD_SECONDS, None]
    for run in rows(folder, "runs"):
        assert check_delivery(folder, run["run"], 12) > 0
    # It begins with a few, whatever the batch.
    first = min(rows(folder, "sends", run=1), key=lambda sent: sent["t_sent"])
    assert first["count"] < free.batch
