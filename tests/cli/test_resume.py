"""`mqlab run --resume`: an interrupted run goes on to the report that it would have had."""

import json
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import read_table

from .command import SMALL, document, here


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("mqlab.runner.conductor.combinations", lambda *_: [])
    file = tmp_path / "my.yaml"
    file.write_text(SMALL)
    return file


def begun(study: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run folder whose second run was not over when the lab was killed."""
    with monkeypatch.context() as unmeasured:
        unmeasured.setattr("mqlab.cli.run.compact", lambda _: None)
        unmeasured.setattr("mqlab.cli.run.run_measure", lambda *_: None)
        unmeasured.setattr("mqlab.cli.run.run_report", lambda _: Path("page"))
        unmeasured.setattr("mqlab.cli.run.print_summary", lambda *_: None)
        unmeasured.setattr("mqlab.cli.results.finish.exit_with_status", lambda _: None)
        result = here(
            "run", study, "--system", "embedded:queue_limit=5MiB", "--agents", "1", "--runs", study.parent / "r"
        )
        assert result.exit_code == 0, result.stderr
    (path,) = (study.parent / "r").iterdir()
    folder = RunFolder.open(path)
    folder.write_meta({**folder.meta(), "status": "incomplete", "finished": None})
    (row,) = (folder.events / "runs").glob("run-00002*")
    row.unlink()
    return folder


@pytest.mark.usefixtures("spark")
def test_it_ends_as_an_uninterrupted_run(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(study, monkeypatch)
    result = here("run", "--resume", folder.path, "--json")
    assert result.exit_code == 0, result.stderr
    assert f"1 runs of {folder.path} are kept" in result.stderr
    made = document(result.stdout)
    assert (made["status"], made["run"]) == ("complete", str(folder.path))
    audits = read_table(folder, "audits")
    assert [(audit["run"], audit["scenario"], audit["status"]) for audit in audits] == [
        (1, "A", "clean"), (2, "B", "clean"),
    ]  # fmt: skip
    assert folder.meta()["options"]["agents"] == "1"
    again = here("run", "--resume", folder.path)
    assert again.exit_code == 2
    assert "is complete: there is nothing to resume" in again.stderr


def test_another_plan_is_refused(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = begun(study, monkeypatch)

    def refused(*words: str) -> str:
        result = here("run", *words, "--resume", folder.path)
        assert result.exit_code == 2, result.output
        return result.stderr

    assert "leave them out" in refused(str(study))
    assert "leave them out" in refused("--only", "A")
    assert "not embedded" in refused("--system", "embedded")
    with folder.locked():
        assert "another mqlab is running it" in refused()
    study.write_text(SMALL.replace("400/s", "500/s"))
    assert "has changed since" in refused()
    meta = json.loads(folder.meta_file.read_text())
    secret = {**meta["options"], "systems": ["external:password=***"]}
    folder.write_meta({**meta, "options": secret})
    assert "keeps no secrets" in refused()
    folder.write_meta({**meta, "options": {}})
    assert "was not begun by mqlab run" in refused()
    assert len([*folder.events.glob("runs/*")]) == 1, "nothing was changed"
