"""Translates names of headers to names of properties, which selectors can use, and back."""

import re
from functools import lru_cache
from typing import Final

from mqlab.errors import MqlabError
from mqlab.wire.native.columns import is_property_name

# Signs that are common in headers and not allowed in selectors, written as other brokers write them.
_WORDS: Final = {"-": "_HYPHEN_", ".": "_DOT_"}
_BACK: Final = {word: sign for sign, word in _WORDS.items()}
_CODED: Final = re.compile("_HYPHEN_|_DOT_|_x([0-9a-f]{1,6})_")
# Headers whose property has a customary name.
_SPECIAL: Final = {"content-type": "content_type"}
_SPECIAL_BACK: Final = {name: header for header, name in _SPECIAL.items()}
_LAST_CHARACTER: Final = 0x10FFFF


class PropertyNameError(MqlabError):
    """A name that no property can have."""


@lru_cache(maxsize=1024)
def property_name(header: str) -> str:
    """Raises PropertyNameError for a name that is too long."""
    if header in _SPECIAL:
        return _SPECIAL[header]
    name = header
    if not is_property_name(name):
        name = "".join(_WORDS.get(sign) or (sign if f"_{sign}".isidentifier() else _coded(sign)) for sign in header)
        if not is_property_name(name[:1]):
            name = _coded(name[0]) + name[1:]
    if not is_property_name(name):
        raise PropertyNameError(f"{header[:80]!r} cannot be a property: its name is too long")
    return name


@lru_cache(maxsize=1024)
def header_name(name: str) -> str:
    if name in _SPECIAL_BACK:
        return _SPECIAL_BACK[name]
    return _CODED.sub(_sign, name)


def _coded(sign: str) -> str:
    return f"_x{ord(sign):x}_"


def _sign(match: re.Match[str]) -> str:
    if match[1] is None:
        return _BACK[match[0]]
    code = int(match[1], 16)
    return chr(code) if code <= _LAST_CHARACTER and not 0xD800 <= code < 0xE000 else match[0]
