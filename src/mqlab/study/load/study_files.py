"""The files beside a study that its values name: a recorded load, and bodies of messages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mqlab.regular_file import read_regular

# A recorded load of an hour at a thousand messages a second, as times.
_MOST_BYTES: Final = 64 * 2**20


@dataclass
class StudyFiles:
    """`folder` is that of the study; no value leads out of it. `used` are the files that values have named so far."""

    folder: Path
    used: list[Path] = field(default_factory=list)

    def read(self, name: str) -> bytes:
        """The content of a file. Raises ValueError."""
        path = self._inside(name)
        try:
            content = read_regular(path, _MOST_BYTES)
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from None
        if path not in self.used:
            self.used.append(path)
        return content

    def names(self, folder: str) -> Sequence[str]:
        """The files of a folder, by name; hidden ones do not count. Raises ValueError."""
        try:
            names = sorted(path.name for path in self._inside(folder).iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise ValueError(f"{folder} cannot be read: {error.strerror}") from None
        if not names:
            raise ValueError(f"{folder} is an empty folder; put the bodies into it, each in a file")
        return [f"{folder}/{name}" for name in names]

    def _inside(self, name: str) -> Path:
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(f"{name} leads out of the study's folder; put the file itself beside the study")
        return path
