"""Runs in which the lab switches between the settings of points: on the real broker, as a process and in agents."""

import asyncio
from typing import Literal, cast

import numpy as np
import pytest

from mqlab.events.checksums import examine
from mqlab.events.folder import RunFolder
from mqlab.events.slices import Switch, slice_edges, within
from mqlab.runner.conductor import RunPlan
from mqlab.runner.resume import keep_runs
from mqlab.runner.switching.switcher import SwitchedRun, Switcher
from mqlab.runner.timeline import Timeline, now
from mqlab.study import Point, load_study
from mqlab.systems import Running, SwitchMoments, System, SystemSettingError, system
from runner.lab import check_delivery, columns, conducted, rows
from runner.points import asking, point

SETTINGS = (
    {"monitoring": "off", "trace": "off"},
    {"monitoring": "high", "trace": "high"},
    {"monitoring": "high", "trace": "low", "traced": "1", "read_out": "yes"},
)


def switched(topology: Literal["client", "bindings", "distributed"], *, least: int = 1) -> list[Point]:
    """Three points that differ in settings which the broker changes while it runs, and one that differs in another."""
    names = ("off", "high", "one pair")
    usual = asking(topology, topology=topology, switch=0.15, measure=0.4, least=least, most=least)
    named = zip((*names, "apart"), (*SETTINGS, {"sync": "off"}), strict=True)
    return [usual.model_copy(update={"name": name, "settings": settings}) for name, settings in named]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    points = [*switched("client", least=2), *switched("bindings")[:3], *switched("distributed")[:3]]
    return conducted(tmp_path_factory.mktemp("runs"), points)


def test_points_that_differ_in_live_settings_share_their_runs(folder: RunFolder) -> None:
    runs = rows(folder, "runs")
    assert {(run["status"], run["reason"]) for run in runs} == {("complete", "")}
    shared: dict[int | None, list[tuple[str, str, int]]] = {}
    for run in sorted(runs, key=lambda run: run["run"]):
        shared.setdefault(run["events_of"], []).append((run["scenario"], run["point"], run["repetition"]))
    alone = shared.pop(None)
    assert alone == [("client", "apart", 1), ("client", "apart", 2)]
    assert sorted(shared.values()) == [
        [("bindings", "off", 1), ("bindings", "high", 1), ("bindings", "one pair", 1)],
        [("client", "off", 1), ("client", "high", 1), ("client", "one pair", 1)],
        [("client", "off", 2), ("client", "high", 2), ("client", "one pair", 2)],
        [("distributed", "off", 1), ("distributed", "high", 1), ("distributed", "one pair", 1)],
    ]
    assert {entry["scenario"] for entry in folder.meta()["switched"]} == {"client", "bindings", "distributed"}


def test_every_slice_is_recorded_with_its_moments(folder: RunFolder) -> None:
    carriers = {run["events_of"] for run in rows(folder, "runs")} - {None}
    assert len(carriers) == 4
    for run in carriers:
        slices = sorted(rows(folder, "switches", run=run), key=lambda row: row["number"])
        blocks = [[row["setting_run"] - run for row in slices[place : place + 3]] for place in range(0, len(slices), 3)]
        assert len(blocks) >= 3
        assert all(sorted(block) == [0, 1, 2] for block in blocks)
        assert blocks[1] == blocks[0][::-1]
        assert all(row["t_asked"] < row["t_confirmed"] < row["t_counted"] for row in slices)
        moments = [row["t_asked"] for row in slices]
        assert moments == sorted(moments)
    assert all(not examine(path).damage for path in folder.event_files("switches"))


def test_the_counts_of_all_settings_are_those_within_their_slices(folder: RunFolder) -> None:
    for run in {run["events_of"] for run in rows(folder, "runs")} - {None}:
        (measure,) = rows(folder, "phases", run=run, phase="measure")
        switches = [
            Switch(row["setting_run"], row["t_asked"], row["t_counted"]) for row in rows(folder, "switches", run=run)
        ]
        edges = slice_edges(switches, measure["t_start"], measure["t_end"])
        replies = columns(folder, "round_trips", run=run)["t_received"]
        inside = np.array([within(replies, of_run) for of_run in edges.values()])
        assert inside.sum(axis=0).max() == 1, "a reply counts for two settings"
        counted = {one["run"]: one["counted_round_trips"] for one in rows(folder, "runs", events_of=run)}
        assert counted == {number: int(flags.sum()) for number, flags in zip(edges, inside, strict=True)}
        assert all(counted.values())
        in_phase = (replies >= measure["t_start"]) & (replies < measure["t_end"])
        assert 0 < sum(counted.values()) < in_phase.sum()
        check_delivery(folder, run, 64)


def test_traced_slices_leave_their_operations(folder: RunFolder) -> None:
    run = min(run["events_of"] for run in rows(folder, "runs", scenario="client") if run["events_of"])
    operations = rows(folder, "operations", run=run)
    assert {row["application"].rstrip("0123456789") for row in operations} == {"Requester", "Responder"}
    puts = [row for row in operations if row["operation"] == "put"]
    assert 0 < len(puts) < len(rows(folder, "sends", run=run)), "other slices are not traced"


def test_an_interrupted_folder_keeps_the_runs_that_share_events(folder: RunFolder) -> None:
    points = [*switched("client", least=2), *switched("bindings")[:3], *switched("distributed")[:3]]
    kept = keep_runs(folder, points)
    recorded = {run["run"]: run for run in rows(folder, "runs")}
    assert sorted(run.number for run in kept) == sorted(recorded)
    for run in kept:
        assert run.events_of == (recorded[run.number]["events_of"] or run.number)
        assert run.outcome.counted_round_trips == recorded[run.number]["counted_round_trips"]
        assert run.outcome.rate(run.point) > 0


def test_settings_that_cannot_be_switched_are_an_error() -> None:
    points = [asking("journal", name=name, settings={"sync": name}, switch=0.4, measure=0.4) for name in ("on", "off")]
    study = load_study("jms-four-brokers")
    with pytest.raises(SystemSettingError, match=r"scenario journal: switch: no two of its points.*monitoring, trace"):
        RunPlan(study, "quick", points, [system("embedded")])


class SlowBroker:
    """Confirms other settings only after a time."""

    def __init__(self, switch_s: float) -> None:
        self._switch_s = switch_s

    async def switch(self, system: System) -> SwitchMoments:  # noqa: ARG002
        asked = now()
        await asyncio.sleep(self._switch_s)
        return SwitchMoments(asked, now())


def slices(switch_s: float, measure_s: float) -> dict[int, list[int]]:
    """The slices, in ns, of three settings in turn, 100 ms each."""
    runs = [SwitchedRun(number, point(), system("embedded")) for number in (1, 2, 3)]
    common = point(switch=0.1, measure=measure_s)
    switcher = Switcher(runs, common, [cast("Running", SlowBroker(switch_s))], 1)

    async def switch() -> Timeline:
        await switcher.prepare()
        begin = now()
        timeline = Timeline(begin, begin, begin + round(measure_s * 1e9))
        await switcher.during(asyncio.sleep(0), timeline)
        return timeline

    edges = switcher.edges(asyncio.run(switch()))
    return {number: np.diff(of_run)[::2].tolist() for number, of_run in edges.items()}


def test_slices_after_slow_switches_begin_late_and_keep_half_of_their_time() -> None:
    """Each switch takes longer than a slice."""
    found = slices(switch_s=0.15, measure_s=1.2)
    assert found.keys() == {1, 2, 3}
    # The end of the measure phase may cut the last one.
    whole = sorted(length for lengths in found.values() for length in lengths)[1:]
    assert len(whole) >= 2
    assert all(length >= 0.05e9 for length in whole)


def test_a_setting_that_came_in_force_too_late_has_a_slice_of_no_length() -> None:
    found = slices(switch_s=0.5, measure_s=0.3)
    assert found.keys() == {1, 2, 3}
    assert sum(sum(lengths) for lengths in found.values()) <= 0.3e9
    assert [0] in found.values()
