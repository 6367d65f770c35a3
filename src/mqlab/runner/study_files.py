"""Files in the settings of a study: read from the study's folder, written to `files/` of the run folder.

Settings on the command line may name any path and are not checked here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mqlab.study import Study
from mqlab.systems import System

# Values of file settings that are not paths.
_NOT_PATHS: Final = ("yes", "no", "none")


def check_files(study: Study, system: System, settings: Mapping[str, str]) -> None:
    """Raises StudyError if a setting names a file outside of the study's folder, or one that does not exist."""
    if not study.own:
        for key in _file_keys(system, settings):
            if system.file_settings[key] == "read":
                _path_in_study(study, key, settings[key])


def resolve_files(study: Study, system: System, settings: Mapping[str, str], files: Path) -> dict[str, str]:
    """The settings of a point, with absolute paths of files. Raises StudyError."""
    if study.own:
        return dict(settings)
    paths = {}
    for key in _file_keys(system, settings):
        value = settings[key]
        if system.file_settings[key] == "read":
            paths[key] = _path_in_study(study, key, value)
        else:
            paths[key] = files / value
            paths[key].parent.mkdir(parents=True, exist_ok=True)
    return {**settings, **{key: str(path) for key, path in paths.items()}}


def check_stand_in(study: Study, published: str, system: System) -> None:
    """Raises StudyError if a study may not name this system as the stand-in for a published one."""
    if not system.open_to_studies:
        raise study.error(
            f"stand_ins.{published}: a study cannot name {system.name}; name it on the command line: --system",
            "stand_ins", published,
        )  # fmt: skip
    for key in _file_keys(system, system.settings):
        raise study.error(
            f"stand_ins.{published}: {key} names a file; write it under settings of a scenario", "stand_ins", published
        )


def _file_keys(system: System, settings: Mapping[str, str]) -> list[str]:
    return [key for key in system.file_settings if key in settings and settings[key] not in _NOT_PATHS]


def _path_in_study(study: Study, key: str, value: str) -> Path:
    folder = study.folder.resolve()
    path = (folder / value).resolve()
    if not path.is_relative_to(folder):
        raise study.error(f"settings.{key}: '{value}' leads out of the study's folder; write a file in it", key, value)
    if not path.is_file():
        raise study.error(f"settings.{key}: there is no file '{value}' in the study's folder", key, value)
    return path
