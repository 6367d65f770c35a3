"""docs/studies.md is the reference: its example runs, and no key is missing from it."""

import re
from pathlib import Path

import pytest

from mqlab.study import load_study
from mqlab.study.language.exhibit_form import FORMS
from mqlab.study.language.expression import FUNCTIONS
from mqlab.study.language.model import Claim, PublishedSetting, RepeatLayer, ScalesForm, StudyForm, StudySource
from mqlab.study.language.parameters import PARAMETERS

TEXT = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")


def test_the_example_is_a_study(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example
    (tmp_path / "orders.yaml").write_text(example[1], encoding="utf-8")
    study = load_study(tmp_path / "orders.yaml")
    assert len(study.points("full")) == 3 + 6
    assert study.claims


@pytest.mark.parametrize(
    "word",
    [
        *PARAMETERS,
        *(f"repeat.{key}" for key in RepeatLayer.model_fields),
        *(key for form in (StudyForm, ScalesForm, PublishedSetting, StudySource, Claim) for key in form.model_fields),
        *FORMS,
        *FUNCTIONS,
    ],
)
def test_every_key_is_explained(word: str) -> None:
    assert re.search(rf"[`{{ ]{re.escape(word)}[`,:}}( ]", TEXT)
