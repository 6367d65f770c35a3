"""Reading the files that a declaration consists of."""

from pathlib import Path
from typing import Final

from mqlab.regular_file import read_regular
from mqlab.study.errors import StudyError

# In bytes. They are written by hand; a file this long is something else.
LONGEST: Final = 1_000_000


def read_text(path: Path) -> str:
    """The text of a file that belongs to a declaration, with each end of a line as `\\n`."""
    try:
        text = read_regular(path, LONGEST).decode("utf-8")
    except OSError as error:
        raise StudyError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise StudyError("is not text in UTF-8", path) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
