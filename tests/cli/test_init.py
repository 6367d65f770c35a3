"""The example that `mqlab init` writes is a study that can be planned and run."""

import tomllib
from pathlib import Path

from mqlab.study import load_study
from mqlab.study.language.model import Layer

from .command import here


def test_it_writes_a_study_that_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    result = here("init", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"mqlab plan {file}" in result.stderr
    study = load_study(file)
    assert len(study.points("quick", ())) == 10
    assert len(study.claims) == 2
    assert here("plan", str(file)).exit_code == 0


def test_the_reference_that_it_names_is_there_and_in_the_wheel(tmp_path: Path) -> None:
    said = here("init", str(tmp_path / "orders.yaml")).stderr.replace("\n", "")
    named = Path(said.partition("The reference of all keys: ")[2])
    assert named.read_text().startswith("# Studies")
    assert "studies.md" in (tmp_path / "orders.yaml").read_text()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["setuptools"]["data-files"] == {"share/doc/mqlab": ["docs/studies.md"]}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine")
    result = here("init", str(file))
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert file.read_text() == "mine"
    assert here("init", str(tmp_path / "no" / "folder.yaml")).exit_code == 2


def test_the_forms_of_load_are_in_it(tmp_path: Path) -> None:
    """It is what a reader learns the language from: every way to make load has its line."""
    file = tmp_path / "orders.yaml"
    here("init", str(file))
    text = file.read_text()
    assert {"pattern", "rate", "settings", "session"} <= set(Layer.model_fields)
    for key in ("pattern: request-reply", "rate: [", "settings: {", "transaction: [", "base: {", "check:"):
        assert key in text, key
