"""The error for a text that is not a selector."""

from typing import Final

from mqlab.errors import MqlabError

# Enough to find the place; the author of the selector knows the rest of the text.
_SHOWN: Final = 30


class BadSelectorError(MqlabError, ValueError):
    """The text is not a selector. The message is one sentence: where, and what was expected."""


def bad(start: int, sentence: str) -> BadSelectorError:
    """An error at an index of the text. People count from 1."""
    return BadSelectorError(f"the selector is wrong at character {start + 1}: {sentence}")


def quoted(text: str) -> str:
    """A piece of a client's text for a message: short, and on one line whatever it holds."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
