"""Bodies of messages that are the files of a folder beside the study, or made by a template.

files in payloads                       one file after the other, in the order of their names
files in payloads at random             each message draws one
template order.json                     a text with fields

The contents are part of a point, so that every agent has them, wherever it runs.
"""

import re
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from mqlab.study.language.units import format_size
from mqlab.study.load.sizes import SMALLEST_BODY
from mqlab.study.load.study_files import StudyFiles
from mqlab.study.load.templates import parse_template

AT_RANDOM: Final = " at random"
TEMPLATE: Final = "template "
_NAME: Final = r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})"
_FILES: Final = re.compile(rf"files in {_NAME}/?(?:{AT_RANDOM})?", re.ASCII)
_TEMPLATE: Final = re.compile(rf"{TEMPLATE}{_NAME}", re.ASCII)
# Every point of the study has them in meta.json.
_MOST_BYTES: Final = 2**20


@dataclass(frozen=True)
class BodyFiles:
    """`contents` are encoded as text; `mean` is the mean size of the bodies, each with the id of its message."""

    text: str
    contents: tuple[str, ...]
    mean: float


def read_bodies(text: str, files: StudyFiles) -> BodyFiles:
    """Raises ValueError."""
    if match := _TEMPLATE.fullmatch(text):
        return _read_template(text, match[1], files)
    match = _FILES.fullmatch(text)
    if match is None:
        raise ValueError(
            f"'{text}' is not accepted; write files in FOLDER, files in FOLDER at random, or template FILE"
        )
    contents = [files.read(name) for name in files.names(match[1])]
    if sum(map(len, contents)) > _MOST_BYTES:
        raise ValueError(f"the files in {match[1]} have more than {format_size(_MOST_BYTES)}; take smaller ones")
    return BodyFiles(text, tuple(map(_encode_body, contents)), SMALLEST_BODY + fmean(map(len, contents)))


def _read_template(text: str, name: str, files: StudyFiles) -> BodyFiles:
    content = files.read(name)
    try:
        template = parse_template(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text in UTF-8") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if template.lengths[1] > _MOST_BYTES:
        raise ValueError(f"{name} makes bodies of more than {format_size(_MOST_BYTES)}; take a shorter text")
    return BodyFiles(text, (_encode_body(content),), SMALLEST_BODY + template.lengths[2])


def body_sizes(text: str, contents: tuple[str, ...]) -> tuple[int, ...]:
    """The sizes of the bodies; of a template, the smallest and the largest."""
    if text.startswith(TEMPLATE):
        fewest, most, _ = parse_template(decode_body(contents[0]).decode()).lengths
        return SMALLEST_BODY + fewest, SMALLEST_BODY + most
    return tuple(SMALLEST_BODY + len(decode_body(content)) for content in contents)


def _encode_body(content: bytes) -> str:
    return b64encode(zlib.compress(content)).decode()


def decode_body(content: str) -> bytes:
    return zlib.decompress(b64decode(content))
