"""Reading the text files of a study."""

from pathlib import Path
from typing import Final

from mqlab.regular_file import read_regular
from mqlab.study.errors import StudyError

# People write these files by hand; a larger file is something else.
MAX_BYTES: Final = 1_000_000


def read_text(path: Path) -> str:
    """Return the text of a file, with `\\n` at the end of each line. Raises StudyError."""
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8")
    except OSError as error:
        raise StudyError(f"cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise StudyError("is not text in UTF-8", path) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
