"""Brokers inside the agents' processes: one with everybody around it, or two with a channel each way."""

import asyncio
import signal
from pathlib import Path
from typing import Literal

import pytest

from mqlab.events.folder import RunFolder
from runner.lab import Once, Recount, agents_running, check_delivery, columns, conducted, rows
from runner.points import LONG, asking, point
from runner.test_failures import check_that_only_the_first_broke, signals

POINTS = {
    "bindings": asking("bindings", topology="bindings"),
    "bindings, persistent, by one way": point("one way", topology="bindings", domain="topic", consumers=2, size=1024),
    "distributed": asking("distributed", topology="distributed", destinations=2, persistent=True),
    "distributed, preload": asking("preload", topology="distributed", preload=50, messages=100),
    "distributed, one way": point("far", topology="distributed", consumers=2, messages=1000, batch=10),
    "distributed, sent only": point("sent", topology="distributed", consumers=0, load="send", messages=1000, batch=10),
    "client": asking("client"),
}
NUMBERS = {name: number for number, name in enumerate(POINTS, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return conducted(tmp_path_factory.mktemp("runs"), [*POINTS.values()])


@pytest.mark.parametrize("name", POINTS)
def test_everything_is_delivered_exactly_once(folder: RunFolder, name: str) -> None:
    (run,) = rows(folder, "runs", run=NUMBERS[name])
    assert (run["status"], run["reason"]) == ("complete", "")
    Recount.of(folder, NUMBERS[name]).check_counts(run)
    if POINTS[name].load != "send":
        assert check_delivery(folder, NUMBERS[name], POINTS[name].size) > 0


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("bindings", {"broker", "agent-2"}),
        ("distributed", {"broker", "broker-b"}),
        ("client", {"broker", "agent-1", "agent-2"}),
    ],
)
def test_a_process_with_a_broker_inside_is_the_broker(folder: RunFolder, name: str, sources: set[str]) -> None:
    # The disk is the machine's, where its kernel counts who waits for it.
    samples = [sample for sample in rows(folder, "samples", run=NUMBERS[name]) if sample["source"] != "disk"]
    assert {sample["source"] for sample in samples} == sources
    assert all((sample["syncs"] is None) == sample["source"].startswith("agent") for sample in samples)


def test_with_bindings_one_agent_plays_every_role(folder: RunFolder) -> None:
    assert {role["agent"] for role in rows(folder, "roles", run=NUMBERS["bindings"])} == {1}


def test_with_two_brokers_each_side_is_at_its_own(folder: RunFolder) -> None:
    roles = rows(folder, "roles", run=NUMBERS["distributed"])
    assert {(role["number"] < 6, role["agent"]) for role in roles} == {(True, 1), (False, 2)}


def test_each_broker_had_its_own_disk(folder: RunFolder) -> None:
    for source in ("broker", "broker-b"):
        looks = rows(folder, "samples", run=NUMBERS["distributed"], source=source)
        assert looks[-1]["syncs"] > looks[0]["syncs"]
    assert [path.name for path in folder.path.glob("hosted*")] == []


def test_one_agent_asked_for_is_enough_for_two_brokers(tmp_path: Path) -> None:
    folder = conducted(tmp_path, [asking(topology="distributed", messages=20)], agents=1)
    (run,) = rows(folder, "runs")
    assert (run["status"], run["counted_round_trips"]) == ("complete", 20)
    assert {clock["agent"] for clock in rows(folder, "clocks")} == {1, 2}


@pytest.mark.parametrize("which", [0, 1])
def test_a_broker_that_is_killed_with_its_agent_breaks_the_run(tmp_path: Path, which: int) -> None:
    chosen = asking("A", topology="distributed", drain=1, least=2, most=2, measure=LONG)
    kill = Once("measure", signals(agents_running, which, signal.SIGKILL))
    folder = conducted(tmp_path, [chosen], watch=kill)
    assert f"agent {which + 1}" in check_that_only_the_first_broke(folder, chosen)


@pytest.mark.parametrize("topology", ["bindings", "distributed"])
def test_interrupted_it_leaves_what_it_has_and_no_process(
    tmp_path: Path, topology: Literal["bindings", "distributed"]
) -> None:
    with pytest.raises(asyncio.CancelledError):
        conducted(tmp_path, [asking(topology=topology, measure=60)], interrupt_in="measure")
    (path,) = tmp_path.iterdir()
    folder = RunFolder.open(path)
    assert [(run["status"], run["reason"]) for run in rows(folder, "runs")] == [("incomplete", "interrupted")]
    assert len(columns(folder, "round_trips", run=1)["seq"]) > 0


def test_a_setting_that_a_hosted_broker_cannot_work_with_is_told(tmp_path: Path) -> None:
    nowhere = "embedded:file_trace=/no/such/folder/trace"
    (run,) = rows(conducted(tmp_path, [asking(topology="bindings")], systems=[nowhere], agents=1), "runs")
    assert run["status"] == "incomplete"
    assert "/no/such/folder" in run["reason"]
