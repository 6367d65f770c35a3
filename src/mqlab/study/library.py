"""Loading a study by the name of a built-in one, or by the path of its file or folder."""

from importlib.resources import files
from pathlib import Path
from typing import Final

from mqlab.study.errors import StudyError
from mqlab.study.language.value_types import suggest
from mqlab.study.reader import read_study
from mqlab.study.study import Study

STUDY_FILE: Final = "study.yaml"


def built_in_studies() -> list[str]:
    folder = _built_in_folder()
    return sorted(path.name for path in folder.iterdir() if (path / STUDY_FILE).is_file())


def load_study(path_or_name: str | Path, *, own: bool = False) -> Study:
    """Return the checked study of that name, file or folder. Raises StudyError.

    `own`: the user wrote the settings, or the study is not run; the settings may name any path.
    """
    if isinstance(path_or_name, str) and path_or_name in built_in_studies():
        return read_study(_built_in_folder() / path_or_name / STUDY_FILE)
    path = Path(path_or_name)
    if path.is_dir():
        if not (path / STUDY_FILE).is_file():
            raise StudyError(f"is a folder without {STUDY_FILE}", path)
        return read_study(path / STUDY_FILE, own=own)
    if not path.exists():
        raise StudyError(f"no such file and no built-in study; {suggest(str(path_or_name), built_in_studies())}", path)
    return read_study(path, own=own)


def _built_in_folder() -> Path:
    return Path(str(files("mqlab"))) / "studies"
