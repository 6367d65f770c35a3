"""Numbers as the Java language writes them."""

import re
import struct
from math import isinf
from typing import Final

from mqlab.broker.core.selectors.errors import bad, quoted

_DIGITS: Final = r"[0-9](?:[0-9_]*[0-9])?"
_HEX: Final = r"[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
_BINARY: Final = r"[01](?:[01_]*[01])?"
_EXPONENT: Final = rf"[eE][+-]?{_DIGITS}"
# The longest form comes first: the rest that a shorter one would leave is not a token.
NUMBER: Final = re.compile(
    rf"""
    (?P<hex_float> 0[xX](?:(?:{_HEX})?\.{_HEX}|{_HEX}\.?)[pP][+-]?{_DIGITS} )(?P<hex_suffix>[fFdD]?)
    | (?P<float> {_DIGITS}\.(?:{_DIGITS})?(?:{_EXPONENT})?
                 | \.{_DIGITS}(?:{_EXPONENT})?
                 | {_DIGITS}{_EXPONENT}
                 | {_DIGITS}(?=[fFdD]) )(?P<suffix>[fFdD]?)
    | (?: 0[xX](?P<hex>{_HEX}) | 0[bB](?P<binary>{_BINARY}) | (?P<plain>{_DIGITS}) )[lL]?
    """,
    re.VERBOSE,
)

LONG_MOST: Final = 2**63 - 1
# Without its sign; only `-` directly before it makes it a long.
LONG_LEAST: Final = 2**63


def number(match: re.Match[str]) -> int | float:
    """The value of a match of NUMBER, without a sign. LONG_LEAST may come out: the sign before it decides."""
    found = match.groupdict()
    if found["hex_float"] is not None:
        return _approximate(match, found["hex_float"], found["hex_suffix"], hexadecimal=True)
    if found["float"] is not None:
        return _approximate(match, found["float"], found["suffix"], hexadecimal=False)
    if found["hex"] is not None:
        return _bits(match, found["hex"], 16)
    if found["binary"] is not None:
        return _bits(match, found["binary"], 2)
    plain = found["plain"].replace("_", "")
    if plain[0] != "0" or len(plain) == 1:
        if len(plain) > len(str(LONG_LEAST)) or int(plain) > LONG_LEAST:
            raise _out_of_range(match, "long")
        return int(plain)
    if set(plain) & {"8", "9"}:
        raise bad(match.start(), f"{quoted(match[0])} begins with 0, so it is octal and has no digits 8 and 9")
    return _bits(match, plain, 8)


def _bits(match: re.Match[str], digits: str, base: int) -> int:
    """All 64 bits can be written, so the upper half of the values is negative."""
    value = int(digits.replace("_", ""), base)
    if value >= 2**64:
        raise _out_of_range(match, "long")
    return value if value <= LONG_MOST else value - 2**64


def _approximate(match: re.Match[str], text: str, suffix: str, *, hexadecimal: bool) -> float:
    digits = text.replace("_", "")
    single = suffix in ("f", "F")
    name = "float" if single else "double"
    try:
        value = float.fromhex(digits) if hexadecimal else float(digits)
        if single:
            (value,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        raise _out_of_range(match, name) from None
    mantissa = re.split("[pP]" if hexadecimal else "[eE]", digits)[0].lower().removeprefix("0x")
    if isinf(value) or (value == 0 and mantissa.strip("0.")):
        raise _out_of_range(match, name)
    return value


def _out_of_range(match: re.Match[str], name: str) -> Exception:
    return bad(match.start(), f"{quoted(match[0])} is out of the range of a {name}")
