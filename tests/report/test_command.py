"""`mqlab report` over one run and over several, and what `mqlab run` takes when no system is named."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mqlab.cli.app import app_with
from mqlab.cli.run import default_systems
from mqlab.events.folder import RunFolder
from mqlab.study import load_study

from .sweep_study import OURS, SCAN, one_scenario


def report(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app_with(["report", "measure"]), ["report", *map(str, arguments)])


@pytest.fixture
def folders(tmp_path: Path) -> list[RunFolder]:
    return [one_scenario(tmp_path / name).write(tmp_path / "runs" / name) for name in ("one", "two")]


def test_one_run_has_its_report_and_no_index(folders: list[RunFolder]) -> None:
    result = report(folders[0].path)
    assert result.exit_code == 0, result.output
    assert (folders[0].report / "index.html").is_file()
    assert not (folders[0].path.parent / "index.html").exists()


def test_several_runs_have_an_index_and_one_document(folders: list[RunFolder]) -> None:
    result = report(*(folder.path for folder in folders), "--json")
    assert result.exit_code == 0, result.output
    assert [one["study"] for one in json.loads(result.stdout)["studies"]] == ["sweeps", "sweeps"]
    index = folders[0].path.parent / "index.html"
    assert index.is_file()
    assert f"all reports: {index}" in result.stderr.replace("\n", "")


def test_a_failed_audit_of_any_is_the_exit_code(tmp_path: Path, folders: list[RunFolder]) -> None:
    made = one_scenario(tmp_path / "three")
    made.rows["audits"][0].update(status="failed", reason="3 lost", lost=3)
    assert report(folders[0].path, made.write(tmp_path / "runs" / "three").path).exit_code == 3


def test_what_is_no_run_folder_is_said_before_anything_is_written(tmp_path: Path, folders: list[RunFolder]) -> None:
    result = report(folders[0].path, tmp_path)
    assert result.exit_code == 2
    assert "not a run folder" in result.stderr
    assert not (folders[0].report / "index.html").exists()


def test_a_study_names_the_systems_that_run_in_place_of_its_own(folders: list[RunFolder]) -> None:
    assert default_systems(load_study(folders[0].study)) == [OURS, SCAN]


def test_without_stand_ins_it_is_the_embedded_broker(tmp_path: Path) -> None:
    made = one_scenario(tmp_path / "plain", stand_ins={})
    assert default_systems(made.study) == ["embedded"]
