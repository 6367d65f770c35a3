"""The one error a declaration can raise."""

from pathlib import Path

from mqlab.errors import MqlabError


class StudyError(MqlabError):
    """A declaration is wrong: one sentence that names the file, the line and what is accepted."""

    def __init__(self, message: str, file: Path | str | None = None, line: int | None = None) -> None:
        self.message = message
        self.file = file
        self.line = line
        place = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(_printable(place + message))


def _printable(text: str) -> str:
    """On one line, and with nothing that a terminal would obey: errors quote what a file holds."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
