"""The files that the settings of a study name: read from the study's folder, written into the run's `files/`.

A user's own words, on the command line, may name any path: they do not come through here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mqlab.study import Study
from mqlab.systems import System

# Values of such settings that name no file.
_NO_FILES: Final = ("yes", "no", "none")


def check_files(study: Study, system: System, settings: Mapping[str, str]) -> None:
    """Raises StudyError for a file that the study may not have read."""
    if not study.own:
        for key in _named(system, settings):
            if system.file_settings[key] == "read":
                _in_study(study, key, settings[key])


def with_files(study: Study, system: System, settings: Mapping[str, str], files: Path) -> dict[str, str]:
    """The settings of a point, with the path of each file as it is on this machine. Raises StudyError."""
    if study.own:
        return dict(settings)
    places = {}
    for key in _named(system, settings):
        value = settings[key]
        if system.file_settings[key] == "read":
            places[key] = _in_study(study, key, value)
        else:
            places[key] = files / value
            places[key].parent.mkdir(parents=True, exist_ok=True)
    return {**settings, **{key: str(path) for key, path in places.items()}}


def check_stand_in(study: Study, published: str, system: System) -> None:
    """Raises StudyError if a study may not name this system in place of a published one."""
    if not system.open_to_studies:
        raise study.error(
            f"stand_ins.{published}: a study cannot name {system.name}; name it on the command line: --system",
            "stand_ins", published,
        )  # fmt: skip
    for key in _named(system, system.settings):
        raise study.error(
            f"stand_ins.{published}: {key} names a file; write it under settings of a scenario", "stand_ins", published
        )


def _named(system: System, settings: Mapping[str, str]) -> list[str]:
    return [key for key in system.file_settings if key in settings and settings[key] not in _NO_FILES]


def _in_study(study: Study, key: str, value: str) -> Path:
    folder = study.folder.resolve()
    path = (folder / value).resolve()
    if not path.is_relative_to(folder):
        raise study.error(f"settings.{key}: '{value}' leads out of the study's folder; write a file in it", key, value)
    if not path.is_file():
        raise study.error(f"settings.{key}: there is no file '{value}' in the study's folder", key, value)
    return path
