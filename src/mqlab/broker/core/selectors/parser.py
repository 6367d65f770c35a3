"""From tokens to the syntax tree: the grammar, one method a rule, and the type errors that the text itself shows.

    either     = both { OR both }
    both       = negation { AND negation }
    negation   = { NOT } predicate
    predicate  = sum [ ("=" | "<>" | "<" | "<=" | ">" | ">=") sum
                     | [NOT] BETWEEN sum AND sum
                     | [NOT] IN "(" string { "," string } ")"
                     | [NOT] LIKE string [ESCAPE string]
                     | IS [NOT] NULL ]
    sum        = product { ("+" | "-") product }
    product    = factor { ("*" | "/") factor }
    factor     = { "+" | "-" } primary
    primary    = name | number | string | TRUE | FALSE | "(" either ")"

IN, LIKE and IS NULL take a name on their left; BETWEEN is written out as the two comparisons it stands for.
"""

from typing import Final

from mqlab.broker.core.selectors import syntax as s
from mqlab.broker.core.selectors.errors import bad
from mqlab.broker.core.selectors.lexer import Token, Word, tokens
from mqlab.broker.core.selectors.like import pattern
from mqlab.broker.core.selectors.literals import LONG_LEAST
from mqlab.broker.limits import SELECTOR_DEPTH

HEADERS: Final = ("JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType")
_ORDER: Final = ("<", "<=", ">", ">=")


class TokenCursor:
    """A position in the tokens of a selector."""

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


def parse(text: str) -> s.Node:
    """The tree of a condition. Raises BadSelectorError."""
    return _Parser(TokenCursor(tokens(text))).selector()


class _Parser:
    """It calls itself for brackets only, so their depth is what is bounded."""

    def __init__(self, cursor: TokenCursor) -> None:
        self._at = cursor
        self._depth = 0

    def selector(self) -> s.Node:
        node = _typed(self._at.token.start, self._either(), s.ValueType.BOOLEAN, "a selector is a condition")
        if self._at.token.word is not Word.END:
            raise self._at.expected("an operator or the end")
        return node

    def _either(self) -> s.Node:
        start, why = self._at.token.start, "OR joins conditions"
        parts = [self._both()]
        while self._at.take("OR"):
            _typed(start, parts[0], s.ValueType.BOOLEAN, why)
            parts.append(_typed(self._at.token.start, self._both(), s.ValueType.BOOLEAN, why))
        return parts[0] if len(parts) == 1 else s.Or(_flat(s.Or, parts))

    def _both(self) -> s.Node:
        start, why = self._at.token.start, "AND joins conditions"
        parts = [self._negation()]
        while self._at.take("AND"):
            _typed(start, parts[0], s.ValueType.BOOLEAN, why)
            parts.append(_typed(self._at.token.start, self._negation(), s.ValueType.BOOLEAN, why))
        return parts[0] if len(parts) == 1 else s.And(_flat(s.And, parts))

    def _negation(self) -> s.Node:
        count = 0
        while self._at.take("NOT"):
            count += 1
        start = self._at.token.start
        node = self._predicate()
        if count:
            _typed(start, node, s.ValueType.BOOLEAN, "NOT stands before a condition")
        return s.Not(node) if count % 2 else node

    def _predicate(self) -> s.Node:
        at, start = self._at, self._at.token.start
        left = self._sum()
        if at.at_sign("=", "<>", *_ORDER):
            sign = at.advance()
            return _comparison(sign, start, left, at.token.start, self._sum())
        if at.take("IS"):
            name = _name(left, start, "IS NULL")
            negated = at.take("NOT")
            at.need("NULL")
            return s.Not(s.IsNull(name)) if negated else s.IsNull(name)
        negated = at.take("NOT")
        if at.take("BETWEEN"):
            return self._between(left, start, negated)
        if at.take("IN"):
            return s.In(_name(left, start, "IN"), self._list(), negated)
        if at.take("LIKE"):
            return self._like(_name(left, start, "LIKE"), negated)
        if negated:
            raise at.expected("BETWEEN, IN or LIKE after NOT")
        return left

    def _between(self, value: s.Node, start: int, negated: bool) -> s.Node:
        why = "BETWEEN compares numbers"
        _typed(start, value, s.ValueType.NUMBER, why)
        low = _typed(self._at.token.start, self._sum(), s.ValueType.NUMBER, why)
        self._at.need("AND")
        high = _typed(self._at.token.start, self._sum(), s.ValueType.NUMBER, why)
        if negated:
            return s.Or((s.Comparison("<", value, low), s.Comparison(">", value, high)))
        return s.And((s.Comparison(">=", value, low), s.Comparison("<=", value, high)))

    def _list(self) -> tuple[str, ...]:
        self._at.need("(", "'(' and a list of strings")
        values = [self._at.text("a string")]
        while self._at.take(","):
            values.append(self._at.text("a string"))
        self._at.need(")", "',' or ')'")
        return tuple(values)

    def _like(self, name: str, negated: bool) -> s.Node:
        start = self._at.token.start
        text = self._at.text("a pattern in single quotes")
        escape = None
        if self._at.take("ESCAPE"):
            at = self._at.token.start
            escape = self._at.text("an escape character in single quotes")
            if len(escape) != 1:
                raise bad(at, f"ESCAPE takes one character, not {len(escape)}")
        return s.Like(name, pattern(text, escape, start), negated)

    def _sum(self) -> s.Node:
        start, first = self._at.token.start, self._product()
        rest = []
        while self._at.at_sign("+", "-"):
            sign = self._operator(start, first)
            rest.append((sign, _typed(self._at.token.start, self._product(), s.ValueType.NUMBER, _calculates(sign))))
        return s.Arithmetic(first, tuple(rest)) if rest else first

    def _product(self) -> s.Node:
        start, first = self._at.token.start, self._factor()
        rest = []
        while self._at.at_sign("*", "/"):
            sign = self._operator(start, first)
            rest.append((sign, _typed(self._at.token.start, self._factor(), s.ValueType.NUMBER, _calculates(sign))))
        return s.Arithmetic(first, tuple(rest)) if rest else first

    def _operator(self, start: int, first: s.Node) -> str:
        sign = str(self._at.advance().value)
        _typed(start, first, s.ValueType.NUMBER, _calculates(sign))
        return sign

    def _factor(self) -> s.Node:
        signs = []
        while self._at.at_sign("+", "-"):
            signs.append(self._at.advance().value)
        negative = signs.count("-") % 2 == 1
        token = self._at.token
        if token.word is Word.NUMBER:
            return _number(self._at.advance(), negative, bare=signs[-1:] != ["-"])
        node = self._primary()
        if not signs:
            return node
        return s.Signed(_typed(token.start, node, s.ValueType.NUMBER, "a sign stands before a number"), negative)

    def _primary(self) -> s.Node:
        at, token = self._at, self._at.token
        if at.take("("):
            if self._depth == SELECTOR_DEPTH:
                raise bad(token.start, f"brackets are nested more than {SELECTOR_DEPTH} times")
            self._depth += 1
            node = self._either()
            at.need(")", f"')' for the '(' at character {token.start + 1}")
            self._depth -= 1
            return node
        if token.word is Word.NAME:
            return s.Identifier(_permitted(at.advance()))
        if token.word is Word.STRING:
            return s.Literal(at.advance().value)
        if at.take("TRUE") or at.take("FALSE"):
            return s.Literal(token.value == "TRUE")
        hint = "; a missing property is found with IS NULL" if token.value == "NULL" else ""
        raise at.expected("a name, a number, a string or '('", hint)


def _typed(start: int, node: s.Node, kind: s.ValueType, why: str) -> s.Node:
    """The same node, if its type can be this one. (Python reads `start` before it makes the node.)"""
    found = s.kind_of(node)
    if found is not None and found is not kind:
        raise bad(start, f"{why}, and this is {found.value}")
    return node


def _comparison(sign: Token, left_start: int, left: s.Node, right_start: int, right: s.Node) -> s.Node:
    operator = str(sign.value)
    if operator in _ORDER:
        why = f"{operator} compares numbers"
        _typed(left_start, left, s.ValueType.NUMBER, why)
        _typed(right_start, right, s.ValueType.NUMBER, why)
    one, other = s.kind_of(left), s.kind_of(right)
    if one and other and one is not other:
        raise bad(sign.start, f"{operator} compares values of one type, not {one.value} with {other.value}")
    return s.Comparison(operator, left, right)


def _calculates(sign: str) -> str:
    return f"{sign} calculates with numbers"


def _name(node: s.Node, start: int, operator: str) -> str:
    if isinstance(node, s.Identifier):
        return node.name
    raise bad(start, f"{operator} takes the name of a property on its left")


def _permitted(token: Token) -> str:
    name = token.text
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")) and name not in HEADERS:
        accepted = ", ".join(HEADERS)
        raise bad(token.start, f"{token} cannot be used in a selector; accepted: {accepted}, JMSX..., JMS_...")
    return name


def _number(token: Token, negative: bool, *, bare: bool) -> s.Node:
    """A literal with its sign. Only directly after `-` can a long be one more than the greatest."""
    value = token.value
    assert not isinstance(value, str)
    if isinstance(value, int) and value == LONG_LEAST:
        if bare:
            raise bad(token.start, f"{token} is out of the range of a long")
        # The opposite of the least long is itself, so further signs change nothing.
        return s.Literal(-LONG_LEAST)
    return s.Literal(-value if negative else value)


def _flat(junction: type[s.And] | type[s.Or], parts: list[s.Node]) -> tuple[s.Node, ...]:
    """`(a AND b) AND c` is `a AND b AND c`."""
    return tuple(inner for part in parts for inner in (part.parts if isinstance(part, junction) else (part,)))
