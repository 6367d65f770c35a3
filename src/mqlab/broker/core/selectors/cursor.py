"""A place in the tokens of a selector: what comes next, and what should have."""

from mqlab.broker.core.selectors.errors import bad
from mqlab.broker.core.selectors.lexer import Token, Word


class TokenCursor:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def advance(self) -> Token:
        """The token that was next."""
        token = self._tokens[self._next]
        self._next += 1
        return token

    def at_sign(self, *signs: str) -> bool:
        return self.token.word is Word.SIGN and self.token.value in signs

    def take(self, value: str) -> bool:
        """Whether this sign or reserved word comes next; if so, it is taken."""
        token = self.token
        found = token.word in (Word.SIGN, Word.RESERVED) and token.value == value
        self._next += found
        return found

    def need(self, value: str, what: str = "") -> None:
        """Takes this sign or reserved word. Raises BadSelectorError."""
        if not self.take(value):
            raise self.expected(what or value)

    def text(self, what: str) -> str:
        """Takes a string. Raises BadSelectorError."""
        if self.token.word is not Word.STRING:
            raise self.expected(what)
        return str(self.advance().value)

    def expected(self, what: str, hint: str = "") -> Exception:
        return bad(self.token.start, f"expected {what}, found {self.token}{hint}")
