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
        # Errors quote the file, and a terminal must not obey it.
        escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in location + message)
        super().__init__("".join(escaped))
