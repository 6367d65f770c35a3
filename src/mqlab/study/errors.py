"""The error of a study file."""

from pathlib import Path

from mqlab.errors import MqlabError


class StudyError(MqlabError):
    """A study file is wrong. The message is one sentence with the file, the line and the accepted values."""

    def __init__(self, message: str, file: Path | str | None = None, line: int | None = None) -> None:
        self.message = message
        self.file = file
        self.line = line
        location = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(_printable(location + message))


def _printable(text: str) -> str:
    """Escape all that is not printable: errors quote the file, and a terminal must not obey it."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
