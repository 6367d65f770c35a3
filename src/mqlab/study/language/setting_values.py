"""The values that a study may give to settings of a system: a word, a number, or a path below a given folder.

Users run studies that others wrote. So a study must not name files outside its own folder (which systems read) or the
run folder (which they write), and must not pass free text to a command line.
"""

import re
from collections.abc import Iterator
from typing import Final

from mqlab.study.language.model import Layer, StudyForm
from mqlab.study.language.yaml_file import Place, YamlFile

_VALUE: Final = re.compile(r"[A-Za-z0-9_.+%:][A-Za-z0-9_.+%:/-]*", re.ASCII)
_ACCEPTED: Final = (
    "accepted in a study: a word, a number, or a path like traces/calls.txt below the study's folder (read) or the "
    "run's files/ (written); other paths are for your own command line, --system NAME:setting=value"
)


def check_settings(file: YamlFile, form: StudyForm) -> dict[tuple[str, str], int]:
    """Return the line of each (setting, value) and ("stand_ins", published system). Raises StudyError."""
    lines: dict[tuple[str, str], int] = {}
    for place, key, value in _settings(form):
        if not is_acceptable(value):
            raise file.error(f"'{value}' is not accepted; {_ACCEPTED}", place)
        lines.setdefault((key, value), file.line(place))
    for published, text in form.stand_ins.items():
        place = ("stand_ins", published)
        for part in text.partition(":")[2].split(","):
            value = part.partition("=")[2].strip()
            if value and not is_acceptable(value):
                raise file.error(f"'{value}' is not accepted; {_ACCEPTED}", place)
        lines["stand_ins", published] = file.line(place)
    return lines


def is_acceptable(value: str) -> bool:
    return _VALUE.fullmatch(value) is not None and not {"", "..", "."} & {*value.split("/")}


def _settings(form: StudyForm) -> Iterator[tuple[Place, str, str]]:
    """Yield (location in the file, setting, value) for every layer."""
    layers: dict[Place, Layer] = {("defaults",): form.defaults}
    layers |= {("scenarios", name): layer for name, layer in form.scenarios.items()}
    for scale in form.scales.model_fields_set:
        layer = getattr(form.scales, scale)
        layers["scales", scale] = layer
        layers |= {("scales", scale, "scenarios", name): own for name, own in layer.scenarios.items()}
    for place, layer in layers.items():
        for key, values in (layer.settings or {}).items():
            if isinstance(values, tuple):
                yield from (((*place, "settings", key, number), key, value) for number, value in enumerate(values))
            else:
                yield (*place, "settings", key), key, values
