"""Values of a property or header of messages, as a study writes them: whole numbers or texts.

7, blue                 every message has it
1 to 8                  drawn, each number as often as any other
red|green|blue          drawn, each text as often as any other
90% 4, 10% 9            drawn with these shares; so are texts: 70% red, 30% blue
zipf 1000               drawn from 1 to 1000; number n is n times as rare as 1
zipf red|green|blue     drawn; text n is n times as rare as the first
zipf 1000 by 1.2        number n is n^1.2 times as rare as 1
1 to 8 in turn          one after the other; so are texts: red|green|blue in turn

Names of points separate parameters by commas, so a plus may stand for the commas between shares.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

from mqlab.study.language.units import parse_percent

_LARGEST: Final = 2**31 - 1
# The shares of all values are in the memory of each agent.
_MOST_KEYS: Final = 1_000_000
_FORMS: Final = "write 7, blue, 1 to 8, red|green in turn, 70% red + 30% blue, zipf 1000 or zipf 1000 by 1.2"
_RANGE: Final = re.compile(r"(\d{1,10})(?: to (\d{1,10}))?", re.ASCII)
_WORD: Final = re.compile(r"[^\W\d][\w.:/@-]*")
_ZIPF: Final = re.compile(r"zipf (.+?)(?: by (\d(?:\.\d{1,3})?))?", re.ASCII)
_SEPARATOR: Final = re.compile(r"\s*[,+]\s*")
_IN_TURN: Final = " in turn"


@dataclass(frozen=True)
class PropertyValues:
    """Numbers or texts: in turn, or drawn by their shares or by Zipf's law, else evenly. `skew` is its exponent."""

    values: range | tuple[int, ...] | tuple[str, ...]
    in_turn: bool = False
    skew: float = 0.0
    shares: tuple[float, ...] = ()


def without_commas(text: str) -> str:
    return re.sub(r"\s*,\s*", " + ", text)


def parse_property(text: str) -> PropertyValues:
    """Raises ValueError."""
    if "%" in text:
        return _shares(text)
    if match := _ZIPF.fullmatch(text):
        last, skew = match[1], float(match[2] or 1)
        values = range(1, int(last) + 1) if last.isascii() and last.isdigit() and len(last) < 10 else _texts(last)
        if not 2 <= len(values) <= _MOST_KEYS or not skew:
            raise ValueError(f"'{text}': zipf takes from 2 to {_MOST_KEYS:,} values, and an exponent above 0")
        return PropertyValues(values, skew=skew)
    several = text.removesuffix(_IN_TURN)
    values = _range(several) if several[:1].isdigit() and "|" not in several else _texts(several)
    if several != text and len(values) < 2:
        raise ValueError(f"'{text}': one value cannot come in turn; {_FORMS}")
    return PropertyValues(values, in_turn=several != text)


def _range(text: str) -> range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a property's value; {_FORMS}")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last <= _LARGEST or (match[2] and first == last):
        raise ValueError(f"'{text}': the second number is above the first, and at most {_LARGEST}")
    return range(first, last + 1)


def _texts(text: str) -> tuple[str, ...]:
    """Of one text, a word: words with blanks are more likely a mistake. In a list, any text without bars and signs."""
    texts = tuple(part.strip() for part in text.split("|"))
    if (len(texts) == 1 and not _WORD.fullmatch(text)) or not all(map(_is_text, texts)):
        raise ValueError(f"'{text}' is not a property's value; {_FORMS}")
    if len({*texts}) < len(texts):
        raise ValueError(f"'{text}': a text is there twice")
    return texts


def _is_text(text: str) -> bool:
    return bool(text) and text.isprintable() and not {*text} & {"|", ",", "+", "%"}


def _shares(text: str) -> PropertyValues:
    shares: dict[str, float] = {}
    for part in _SEPARATOR.split(text.strip()):
        share, _, value = part.partition(" ")
        if not share.endswith("%") or not _is_text(value := value.strip()):
            raise ValueError(f"'{part}' is not a share and a value; {_FORMS}")
        if value in shares or not parse_percent(share):
            raise ValueError(f"'{text}': {value} {'is there twice' if value in shares else 'has no messages'}")
        shares[value] = parse_percent(share)
    if not math.isclose(math.fsum(shares.values()), 1, abs_tol=1e-9):
        raise ValueError(f"the shares of '{text}' make {100 * math.fsum(shares.values()):g}%, not 100%")
    if all(value.isascii() and value.isdigit() and int(value) <= _LARGEST for value in shares):
        return PropertyValues(tuple(map(int, shares)), shares=tuple(shares.values()))
    return PropertyValues(tuple(shares), shares=tuple(shares.values()))
