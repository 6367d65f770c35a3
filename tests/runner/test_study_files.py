"""Files that a study's settings name: read from its folder, written into the run's, and nowhere else."""

from pathlib import Path

import pytest
import uvloop

from mqlab.events.folder import RunFolder
from mqlab.runner.conductor import Conductor, RunPlan
from mqlab.runner.study_files import check_stand_in
from mqlab.study import Study, StudyError, load_study
from mqlab.systems import system

STUDY = """study: mine
title: Mine
scenarios:
  A:
    queues: 1
    producers: 1
    consumers: 1
    rate: 100/s
    message: {{size: 12B}}
    settings: {{{settings}}}
    phases: {{warmup: 50ms, measure: 100ms, drain: 5s}}
    repeat: {{until: none, least: 1, most: 1}}
"""


def study(tmp_path: Path, settings: str, more: str = "") -> Study:
    folder = tmp_path / "study"
    folder.mkdir(exist_ok=True)
    (folder / "study.yaml").write_text(STUDY.format(settings=settings) + more)
    return load_study(folder)


def order(declared: Study, text: str = "embedded") -> RunPlan:
    return RunPlan(declared, "full", declared.points("full"), [system(text)], agents=1)


def test_what_a_study_has_written_is_in_the_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = study(tmp_path, "api_trace: traces/calls.txt, trace_file: mine.ini")
    (tmp_path / "study" / "mine.ini").write_text("ApplicationTrace:\n  ApplName=*\n  Trace=OFF\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    folder = RunFolder.create(tmp_path / "runs", "mine")
    uvloop.run(Conductor(order(declared), folder, lambda _: None).conduct())
    assert folder.meta()["status"] == "complete"
    assert (folder.files / "traces" / "calls.txt").stat().st_size > 0
    assert [*elsewhere.iterdir()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "runs", "study"]


def test_a_link_out_of_the_studys_folder_is_refused_with_its_line(tmp_path: Path) -> None:
    declared = study(tmp_path, "trace_file: mine.ini")
    (tmp_path / "secret").write_text("root:secret\n")
    (tmp_path / "study" / "mine.ini").symlink_to(tmp_path / "secret")
    with pytest.raises(StudyError, match=r"study\.yaml:10: settings\.trace_file: 'mine\.ini' leads out") as refused:
        order(declared)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"study\.yaml:10: settings\.trace_file: there is no file 'mine\.ini'"):
        order(study(tmp_path, "trace_file: mine.ini"))


def test_the_command_line_may_name_any_path(tmp_path: Path) -> None:
    given = f"embedded:api_trace={tmp_path / 'calls'}"
    folder = RunFolder.create(tmp_path / "runs", "mine")
    uvloop.run(Conductor(order(study(tmp_path, ""), given), folder, lambda _: None).conduct())
    assert (tmp_path / "calls").stat().st_size > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("external:driver=jms,address=x,jars=a.jar", "a study cannot name external"),
        ("embedded:trace_file=mine.ini", "trace_file names a file; write it under settings of a scenario"),
    ],
)
def test_a_stand_in_of_a_study_is_no_way_around(tmp_path: Path, text: str, words: str) -> None:
    declared = study(tmp_path, "", f'systems: {{Q 1: []}}\nstand_ins:\n  Q 1: "{text}"\n')
    with pytest.raises(StudyError, match=rf"study\.yaml:15: stand_ins\.Q 1: {words}"):
        check_stand_in(declared, "Q 1", system(text))


def test_api_trace_that_is_a_switch_stays_one(tmp_path: Path) -> None:
    order(study(tmp_path, "api_trace: [no, yes]"))
    declared = study(tmp_path, "", 'systems: {Q 1: []}\nstand_ins: {Q 1: "embedded:api_trace=yes"}\n')
    check_stand_in(declared, "Q 1", system("embedded:api_trace=yes"))
