"""From text to tokens: words, numbers, strings and signs."""

import re
from enum import Enum
from typing import Final, NamedTuple
from unicodedata import category

from mqlab.broker.core.selectors.errors import bad, quoted
from mqlab.broker.core.selectors.literals import NUMBER, number

RESERVED: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"},
)

_SPACE: Final = re.compile(r"[ \t\f\r\n]+")
_STRING: Final = re.compile(r"'[^']*(?:''[^']*)*'")
_SIGN: Final = re.compile(r"<>|<=|>=|[=<>()+\-*/,]")
# What Java calls the letters, and what may follow them.
_LETTERS: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_LATER: Final = _LETTERS | {"Nd", "Mn", "Mc"}
_HINTS: Final = {'"': ": a string stands in single quotes", "!": ": not equal is written <>"}


class Word(Enum):
    NAME = "a name"
    RESERVED = "a reserved word"
    NUMBER = "a number"
    STRING = "a string"
    SIGN = "a sign"
    END = "the end"


class Token(NamedTuple):
    """`value` is the name, the reserved word in capitals, the sign, or what a literal stands for."""

    word: Word
    value: str | int | float
    start: int
    text: str

    def __str__(self) -> str:
        return "the end" if self.word is Word.END else quoted(self.text)


def tokens(text: str) -> list[Token]:
    """All tokens and one for the end. Raises BadSelectorError where none begins."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if space := _SPACE.match(text, at):
            at = space.end()
            continue
        token = _token(text, at)
        found.append(token)
        at += len(token.text)
    found.append(Token(Word.END, "", len(text), ""))
    return found


def _token(text: str, at: int) -> Token:
    character = text[at]
    if match := _SIGN.match(text, at):
        return Token(Word.SIGN, match[0], at, match[0])
    if character == "'":
        return _string(text, at)
    if character in "0123456789" or (character == "." and text[at + 1 : at + 2].isdecimal()):
        return _number(text, at)
    if category(character) not in _LETTERS:
        raise bad(at, f"unexpected {quoted(character)}{_HINTS.get(character, '')}")
    name = text[at : _word_end(text, at)]
    if name.upper() in RESERVED and name.isascii():
        return Token(Word.RESERVED, name.upper(), at, name)
    return Token(Word.NAME, name, at, name)


def _string(text: str, at: int) -> Token:
    match = _STRING.match(text, at)
    if match is None:
        raise bad(at, "a string begins here and is never closed with a single quote")
    return Token(Word.STRING, match[0][1:-1].replace("''", "'"), at, match[0])


def _number(text: str, at: int) -> Token:
    match = NUMBER.match(text, at)
    end = match.end() if match else at
    # `1.2.3`, `12ab` and `0x`: the number goes on in a way that no number does.
    if match is None or _word_end(text, end) > end or text[end : end + 1] == ".":
        raise bad(at, f"{quoted(_candidate(text, at))} is not a number")
    return Token(Word.NUMBER, number(match), at, match[0])


def _candidate(text: str, at: int) -> str:
    end = at
    while end < len(text) and (text[end] == "." or category(text[end]) in _LATER):
        end += 1
    return text[at:end]


def _word_end(text: str, at: int) -> int:
    while at < len(text) and category(text[at]) in _LATER:
        at += 1
    return at
