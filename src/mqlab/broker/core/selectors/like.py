"""Patterns of LIKE: read once, matched over a whole column by functions whose time grows with the text only."""

from collections.abc import Callable
from itertools import groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from mqlab.broker.core.selectors.errors import bad
from mqlab.broker.core.selectors.syntax import Wildcard
from mqlab.broker.limits import LIKE_FLOATING

Pattern = tuple[str | Wildcard, ...]
Matcher = Callable[[pa.Array], pa.Array]

_EQUAL: Final = pc.get_function("equal")


def pattern(text: str, escape: str | None, start: int) -> Pattern:
    """One piece a character, except that wildcards are put in order: `_` before `%`, and one `%` for many.

    Raises BadSelectorError for an escape character that escapes nothing.
    """
    pieces: list[str | Wildcard] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following not in ("_", "%", escape):
                raise bad(start, f"the escape character {escape!r} stands before '_', '%' or itself")
            pieces.append(following)
        else:
            pieces.append(Wildcard(character) if character in ("_", "%") else character)
    ordered = _ordered(pieces)
    _check(ordered, start)
    return ordered


def _ordered(pieces: list[str | Wildcard]) -> Pattern:
    """`%_%` and `_%` match the same texts, and the second does so without trying."""
    found: list[str | Wildcard] = []
    for wild, run in groupby(pieces, lambda piece: isinstance(piece, Wildcard)):
        parts = [*run]
        if wild:
            ones = parts.count(Wildcard.ONE)
            found += [Wildcard.ONE] * ones + [Wildcard.MANY] * (ones < len(parts))
        else:
            found += parts
    return tuple(found)


def _check(pieces: Pattern, start: int) -> None:
    if Wildcard.MANY in pieces:
        floating = pieces[pieces.index(Wildcard.MANY) :].count(Wildcard.ONE)
        if floating > LIKE_FLOATING:
            raise bad(start, f"a pattern has at most {LIKE_FLOATING} '_' after a '%', this one {floating}")


def matcher(pieces: Pattern) -> Matcher:
    """A function from a column of strings to a column of booleans."""
    opened = pieces[:1] == (Wildcard.MANY,)
    closed = len(pieces) > 1 and pieces[-1] is Wildcard.MANY
    inner = pieces[opened : len(pieces) - closed]
    if any(isinstance(piece, Wildcard) for piece in inner):
        # For RE2, which never goes back in the text. A `%` at an end is simply no anchor there.
        body = "".join(_expression(piece) for piece in inner)
        return _searching("match_substring_regex", f"(?s){'' if opened else '^'}{body}{'' if closed else '$'}")
    text = "".join(str(piece) for piece in inner)
    if opened or closed:
        name = "match_substring" if opened and closed else "ends_with" if opened else "starts_with"
        return _searching(name, text)
    scalar = pa.scalar(text)
    return lambda column: _EQUAL.call([column, scalar])


def _searching(name: str, text: str) -> Matcher:
    function, options = pc.get_function(name), pc.MatchSubstringOptions(text)
    return lambda column: function.call([column], options)


def _expression(piece: str | Wildcard) -> str:
    if piece is Wildcard.ONE:
        return "."
    if piece is Wildcard.MANY:
        return ".*"
    character = str(piece)
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"
