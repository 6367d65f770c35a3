"""Points with settings of the system: each on the system it wants, taking turns; and traces of what was done."""

from collections import Counter
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.runner import running_systems
from mqlab.runner.capability import describe_system
from mqlab.runner.conductor import RunPlan
from mqlab.study import load_study
from mqlab.systems import SystemSettingError, system
from runner.lab import check_delivery, conducted, rows
from runner.points import asking, point
from runner.test_repetition import STEADY, FakeSystem, Played, play, played

__all__ = ["played"]

LEVELS = {"off": {}, "low": {"trace": "low"}, "one pair": {"trace": "high", "traced": "1"},
          "read out": {"trace": "medium", "read_out": "yes"}, "calls": {"api_trace": "yes"}}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    points = [
        asking("A", name=name, settings=settings, least=2, most=2, messages=100, requesters=3)
        for name, settings in LEVELS.items()
    ]
    inside = asking("inside", topology="bindings", messages=100, requesters=3, settings={"trace": "low"})
    return conducted(tmp_path_factory.mktemp("runs"), [*points, inside])


def test_points_that_differ_in_settings_take_turns(folder: RunFolder) -> None:
    runs = rows(folder, "runs")
    assert {(run["status"], run["reason"], run["system"]) for run in runs} == {("complete", "", "embedded")}
    forth = [*LEVELS]
    assert [run["point"] for run in runs] == [*forth, *reversed(forth), ""]
    assert [run["repetition"] for run in runs] == [1] * 5 + [2] * 5 + [1]
    for run in runs:
        assert check_delivery(folder, run["run"], 64) == 200


def traced(folder: RunFolder, point: str, scenario: str = "A") -> list[Counter[tuple[str, str]]]:
    """Of each run: messages of (application, operation)."""
    found = []
    for run in rows(folder, "runs", scenario=scenario, point=point):
        of_run: Counter[tuple[str, str]] = Counter()
        for row in rows(folder, "operations", run=run["run"]):
            of_run[row["application"], row["operation"]] += row["messages"]
        found.append(of_run)
    return found


@pytest.mark.parametrize(("name", "scenario"), [("low", "A"), ("read out", "A"), ("", "inside")])
def test_every_operation_of_a_traced_run_is_in_its_events(folder: RunFolder, name: str, scenario: str) -> None:
    for found in traced(folder, name, scenario):
        applications = {application for application, _ in found}
        assert applications == {*(f"Requester{n}" for n in range(3)), *(f"Responder{m}" for m in range(2))}
        puts = {who: number for (who, what), number in found.items() if what == "put"}
        assert [puts[f"Requester{n}"] for n in range(3)] == [34, 33, 33]
        assert puts["Responder0"] + puts["Responder1"] == 100


def test_only_the_chosen_pairs_are_traced(folder: RunFolder) -> None:
    for found in traced(folder, "one pair"):
        assert {application for application, _ in found} == {"Requester0", "Responder0"}
        assert found["Requester0", "put"] == 34


@pytest.mark.parametrize("name", ["off", "calls"])
def test_others_have_no_operations(folder: RunFolder, name: str) -> None:
    assert traced(folder, name) == [Counter(), Counter()]


def test_a_setting_that_the_system_has_not_is_told_before_anything_starts() -> None:
    study = load_study("jms-four-brokers")
    with pytest.raises(SystemSettingError, match="no setting 'speed'"):
        RunPlan(study, "quick", [point(settings={"speed": "high"})], [system("embedded")])


def test_what_some_points_change_is_stamped() -> None:
    found = describe_system(system("embedded"), [point(name="on"), point(name="off", settings={"sync": "off"})])
    assert [stamp.endswith("(in some points)") for stamp in found["stamps"]] == [True]
    assert found["settings"]["sync"] == "on"


class TestFleet:
    def test_beyond_a_few_the_one_that_was_not_used_for_longest_is_stopped(
        self, tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running_systems, "MAX_RUNNING", 2)
        names = ["one", "two", "three"]
        play(played, tmp_path, [point(most=2, least=2)], one=STEADY, two=STEADY, three=STEADY)
        # one, two, three (one goes); three, two, one (three goes).
        assert played.order == [("A", name, 1) for name in names] + [("A", name, 2) for name in reversed(names)]
        assert {name: FakeSystem.starts[name] for name in names} == {"one": 2, "two": 1, "three": 1}
        assert sum(FakeSystem.starts[f"{name} stopped"] for name in names) == 4

    def test_without_memory_for_another_the_others_are_stopped(
        self, tmp_path: Path, played: Played, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(running_systems, "_free_bytes", lambda: 1 << 30)
        play(played, tmp_path, [point(most=2, least=2)], one=STEADY, two=STEADY)
        # one, two (one goes), two again, one (two goes).
        assert {name: FakeSystem.starts[name] for name in ("one", "two")} == {"one": 2, "two": 1}

    def test_points_take_turns_with_systems_within(self, tmp_path: Path, played: Played) -> None:
        points = [point("A", name=name, base=base, batch=n, least=2, most=2)
                  for n, (name, base) in enumerate((("x", None), ("y", "x")), 1)]  # fmt: skip
        play(played, tmp_path, points, one=STEADY, two=STEADY)
        assert [who for _, who, _ in played.order] == ["one", "two", "one", "two", "two", "one", "two", "one"]
        assert [repetition for *_, repetition in played.order] == [1] * 4 + [2] * 4
