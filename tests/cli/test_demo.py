"""`mqlab demo`: the embedded broker beside every system that is installed."""

from pathlib import Path

import pytest

from mqlab.cli.experiments import demo
from mqlab.cli.systems import names
from mqlab.events.folder import RunFolder
from mqlab.runner.conductor import RunPlan
from mqlab.systems import SYSTEMS

from .command import here


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RunPlan, float]]:
    """The plans and the seconds of demos whose runs are not played."""
    found: list[tuple[RunPlan, float]] = []

    def record(order: RunPlan, runs: Path, *_: object, seconds: float, **__: object) -> RunFolder:
        found.append((order, seconds))
        return RunFolder(runs)

    monkeypatch.setattr(demo, "run_study", record)
    monkeypatch.setattr(demo, "exit_with_status", lambda _: None)
    return found


def test_every_installed_system_has_part(planned: list[tuple[RunPlan, float]], monkeypatch: pytest.MonkeyPatch) -> None:
    ready = {"embedded", "nats", "redis"}
    monkeypatch.setattr(names, "not_ready", lambda system: "" if system.name in ready else "not installed")
    result = here("demo", "--minutes", "1.0")
    assert result.exit_code == 0, result.output
    ((order, seconds),) = planned
    assert [system.label for system in order.systems] == ["embedded", "nats", "redis"]
    assert "The systems: embedded, nats, redis." in result.stderr
    assert "Left out" not in result.stderr
    assert seconds == 60
    assert {point.scenario for point in order.points} == {"queue", "persistent"}
    assert ready < {*SYSTEMS}


def test_it_takes_about_two_minutes_with_all_systems_installed(
    planned: list[tuple[RunPlan, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The least number of runs fits the time; the systems that have none are named, with the time for all."""
    monkeypatch.setattr(names, "not_ready", lambda system: "" if system.name != "external" else "it needs an address")
    result = here("demo")
    assert result.exit_code == 0
    ((order, seconds),) = planned
    load_seconds = sum(point.repeat.least * point.seconds for point in order.points)
    assert 2 * len(order.systems) * load_seconds <= seconds < 120
    played = {system.label for system in order.systems}
    assert "embedded" in played
    assert len(played) >= 3
    told = " ".join(result.stderr.split())
    left_out = told.partition("Left out, for lack of time: ")[2].partition(". For all: mqlab demo --minutes ")
    assert {*left_out[0].split(", ")} == {*SYSTEMS} - played - {"external"}
    assert float(left_out[2].split()[0].rstrip(".")) * 60 >= 2 * load_seconds * (len(SYSTEMS) - 2)


@pytest.mark.usefixtures("spark")
def test_it_ends_with_a_sentence_and_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In as little time as it can take, on the embedded broker alone."""
    monkeypatch.setattr("mqlab.runner.conductor.combinations", lambda *_: [])
    monkeypatch.setattr(names, "not_ready", lambda system: "" if system.name == "embedded" else "not installed")
    result = here("demo", "--minutes", "0.05", "--runs", tmp_path)
    assert result.exit_code == 0, result.output
    assert "of embedded is" in result.stdout
    (page,) = tmp_path.glob("*/report/index.html")
    assert f"report: {page}" in result.stderr.replace("\n", "")
    assert "Next: mqlab studies" in result.stderr
