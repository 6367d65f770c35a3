"""The load of a scenario of any study, for commands that make up a study of their own."""

from pathlib import Path
from typing import Final

import yaml

from mqlab.json_values import JsonObject
from mqlab.study import load_study
from mqlab.study.expansion import merge
from mqlab.study.language.text_file import read_text

# Keys of a scenario that do not describe its load.
_NOT_LOAD: Final = ("title", "published", "base", "phases", "repeat", "find")


def workload_parameters(name: str, scenario: str | None, folder: Path) -> tuple[str, JsonObject]:
    """A scenario and its parameters as in a study file; None: the only one of the study.

    The files that they name are copied to `folder`, for a study there.
    Raises StudyError, and ValueError if the study has no such scenario.
    """
    study = load_study(name)
    if scenario is None and len(study.scenarios) == 1:
        (scenario,) = study.scenarios
    if scenario not in study.scenarios:
        raise ValueError(f"{study.id} has the scenarios {', '.join(study.scenarios)}; name one of them")
    study.copy(folder)
    file = yaml.load(read_text(study.files[0]), yaml.BaseLoader)
    parameters = merge(file.get("defaults", {}), file["scenarios"][scenario])
    return scenario, {key: value for key, value in parameters.items() if key not in _NOT_LOAD}
