"""What a study may write as a setting of a system: a word, a number, or the path of a file below a given folder.

A study comes from somebody else as easily as a document does. So nothing in it may name a file outside the study's
folder (which systems read from) or the run's (which they write to), nor be free text for a command line.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from mqlab.study.language.model import Layer, StudyForm
from mqlab.study.language.yaml_file import Place, YamlFile

_VALUE: Final = re.compile(r"[A-Za-z0-9_.+%:][A-Za-z0-9_.+%:/-]*", re.ASCII)
_ACCEPTED: Final = (
    "accepted in a study: a word, a number, or a path like traces/calls.txt below the study's folder (read) or the "
    "run's files/ (written); other paths are for your own command line, --system NAME:setting=value"
)


def check_settings(file: YamlFile, form: StudyForm) -> dict[tuple[str, str], int]:
    """The line of each (setting, value) and each ("stand_ins", published system). Raises StudyError."""
    lines: dict[tuple[str, str], int] = {}
    for place, key, value in _settings(form):
        if not acceptable(value):
            raise file.error(f"'{value}' is refused; {_ACCEPTED}", place)
        lines.setdefault((key, value), file.line(place))
    for published, text in form.stand_ins.items():
        place = ("stand_ins", published)
        for part in text.partition(":")[2].split(","):
            value = part.partition("=")[2].strip()
            if value and not acceptable(value):
                raise file.error(f"'{value}' is refused; {_ACCEPTED}", place)
        lines["stand_ins", published] = file.line(place)
    return lines


def acceptable(value: str) -> bool:
    return _VALUE.fullmatch(value) is not None and not {"", "..", "."} & {*value.split("/")}


def _settings(form: StudyForm) -> Iterator[tuple[Place, str, str]]:
    """Every value of every layer, with its place in the file."""
    layers: dict[Place, Layer] = {("defaults",): form.defaults}
    layers |= {("scenarios", name): layer for name, layer in form.scenarios.items()}
    for scale in form.scales.model_fields_set:
        layer = getattr(form.scales, scale)
        layers["scales", scale] = layer
        layers |= {("scales", scale, "scenarios", name): own for name, own in layer.scenarios.items()}
    for place, layer in layers.items():
        written: dict[str, Any] = layer.settings or {}
        for key, values in written.items():
            if isinstance(values, tuple):
                yield from (((*place, "settings", key, number), key, value) for number, value in enumerate(values))
            else:
                yield (*place, "settings", key), key, values
