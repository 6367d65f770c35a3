"""`mqlab overhead`: what a setting costs, from a short run of its own."""

from pathlib import Path

import pytest
import yaml

from mqlab.cli.experiments import overhead
from mqlab.cli.terminal.console import show
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from mqlab.pipeline.measure_tables import read_table

from .command import SMALL, document, here


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> JsonObject:
    """Of confirmed persistent sends with and without a sync, on the load of a scenario of one's own."""
    parent = tmp_path_factory.mktemp("overhead")
    file = parent / "mine.yaml"
    file.write_text(SMALL)
    words = ("--setting", "sync=off", "--workload", f"{file}:B", "--rounds", "2", "--seconds", "0.3")
    result = here("overhead", *words, "--runs", parent / "runs", "--json")
    assert result.exit_code == 0, result.stderr
    return document(result.stdout)


def test_each_metric_has_its_change_against_the_base(costs: JsonObject) -> None:
    metrics = [one["metric"] for one in costs["costs"]]
    assert metrics[0] == "rate.received"
    # A clock of whole ticks may see no CPU time at all in a phase as short as this one.
    assert metrics == sorted({*metrics} & {"rate.received", "cpu.message", "cpu.broker"}, key=overhead._METRICS.index)
    # On a busy machine a run may not be steady, and is then left out.
    noise = read_table(RunFolder.open(Path(costs["run"])), "noise")
    off, on = (
        {run["repetition"] for run in noise if run["used"] and run["point"] == f"sync={x}"} for x in ("off", "on")
    )
    is_paired = off == on or len(off & on) > 1
    runs = len(off & on) if is_paired else min(len(off), len(on))
    for one in costs["costs"]:
        assert (one["scenario"], one["point"], one["base"]) == ("sync", "sync=off", "sync=on")
        assert one["system"] == "embedded"
        assert (one["runs"], one["paired"]) == (runs, is_paired)
        assert runs == 1 or one["low"] <= one["value"] <= one["high"]


def test_the_runs_are_kept_and_interleaved(costs: JsonObject) -> None:
    found = read_table(RunFolder.open(Path(costs["run"])), "audits")
    assert [audit["point"] for audit in found] == ["sync=on", "sync=off", "sync=off", "sync=on"]
    assert {audit["status"] for audit in found} == {"clean"}


def test_values_that_can_be_switched_share_their_runs(tmp_path: Path) -> None:
    words = ("--setting", "monitoring=high", "--system", "embedded:monitoring=off", "--rounds", "2", "--seconds", "0.4")
    result = here("overhead", *words, "--runs", tmp_path, "--json")
    assert result.exit_code == 0, result.stderr
    found = document(result.stdout)
    audits = read_table(RunFolder.open(Path(found["run"])), "audits")
    assert [audit["point"] for audit in audits] == ["monitoring=off", "monitoring=high"] * 2
    assert {audit["status"] for audit in audits} == {"clean"}, audits
    (rate,) = [one for one in found["costs"] if one["metric"] == "rate.round_trips"]
    assert (rate["point"], rate["base"], rate["paired"]) == ("monitoring=high", "monitoring=off", True)


def test_the_old_way_has_a_run_for_each_value() -> None:
    settings = [overhead.SettingComparison("monitoring", "off", ("high",))]
    switched, separate = (
        yaml.safe_load(overhead._study_text(settings, {}, 2, 1.0, live))["scenarios"]["monitoring"]["switch"]
        for live in (("monitoring",), ())
    )
    assert (switched, separate) == ("400ms", "none")


def test_the_table_for_people(costs: JsonObject, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {**costs["costs"][0], "low": None, "high": None, "value": -3.14}
    show(overhead._table([unknown]))
    shown = capsys.readouterr().out
    assert "sync=off" in shown
    assert "-3.1 %" in shown
    assert "not known" in shown
