"""Random conditions in three languages at once: a selector, SQLite's SQL and Spark's SQL.

They are made with as few brackets as precedence allows, so that each engine reads them by its own grammar. Left out
is what the three languages define differently:

- Values of unlike types: SQLite orders them by type and Spark casts them, a selector calls their comparison FALSE.
  So every expression is typed here.
- Overflow of a long: SQLite goes over to floating point, Spark stops, Java wraps around. So numbers are small.
- Division of a double by zero, infinities and not-a-number: SQLite makes them NULL, Spark has NaN = NaN.
- A float in arithmetic: Spark rounds to float after each step. It is a double in both databases here.
- Hexadecimal, octal, binary and suffixed literals: each has its own. They have named tests.

Spark's `/` is never exact: it says `div`, and stops at zero, so the divisor is made NULL there, as it is in SQLite.
"""

import random
from collections.abc import Callable
from typing import NamedTuple


class Said(NamedTuple):
    selector: str
    sqlite: str
    spark: str


EXACT = ("i8", "i16", "i32", "i64")
APPROXIMATE = ("f32", "f64")
STRINGS = ("s", "t")
BOOLEANS = ("b", "c")
# In no message at all; in the databases a column of nothing but NULL.
NEVER = {"no_number": "number", "no_string": "string", "no_boolean": "boolean"}
WORDS = ("", "a", "ab", "abc", "aab", "Ab", "b_c", "a%b", "it's", "é", "aéb", "a\nb", "x🙂y", "!", "a b")
PATTERNS = ("%", "a%", "%b", "%a%", "a_", "_", "a_b", "%b%c%", "_%_", "é", "x_y", "a!%b", "b!_c", "%!!%", "%a_%", "")


class Expressions:
    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def condition(self, depth: int = 2) -> Said:
        return self._chain(" OR ", lambda: self._both(depth), (7, 3, 1))

    def _both(self, depth: int) -> Said:
        return self._chain(" AND ", lambda: self._negation(depth), (7, 3, 1))

    def _negation(self, depth: int) -> Said:
        said = self._predicate(depth)
        return self._joined("NOT ", said) if self._chance.random() < 0.2 else said

    def _predicate(self, depth: int) -> Said:
        makers: list[Callable[[int], Said]] = [
            self._comparison, self._comparison, self._between, self._of_strings, self._in, self._like, self._null,
            self._flag, self._of_booleans,
        ]  # fmt: skip
        if depth and self._chance.random() < 0.25:
            return self._joined("(", self.condition(depth - 1), ")")
        return self._chance.choice(makers)(depth)

    def _comparison(self, _: int) -> Said:
        return self._joined(self._number(), self._sign("=", "<>", "<", "<=", ">", ">="), self._number())

    def _between(self, _: int) -> Said:
        operator = self._chance.choice((" BETWEEN ", " NOT BETWEEN "))
        return self._joined(self._number(), operator, self._number(), " AND ", self._number())

    def _of_strings(self, _: int) -> Said:
        return self._joined(self._text(), self._sign("=", "<>"), self._text())

    def _of_booleans(self, depth: int) -> Said:
        sides = [self._boolean(depth), self._boolean(depth)]
        return self._joined(sides[0], self._sign("=", "<>"), sides[1])

    def _in(self, _: int) -> Said:
        words = [self._word(word) for word in self._chance.sample(WORDS, self._chance.randint(1, 4))]
        listed = [part for word in words for part in (", ", word)][1:]
        operator = self._chance.choice((" IN (", " NOT IN ("))
        return self._joined(self._name(*STRINGS, never="no_string"), operator, *listed, ")")

    def _like(self, _: int) -> Said:
        pattern = self._chance.choice(PATTERNS)
        escape = " ESCAPE '!'" if "!" in pattern else ""
        operator = self._chance.choice((" LIKE ", " NOT LIKE "))
        return self._joined(self._name(*STRINGS, never="no_string"), operator, self._word(pattern), escape)

    def _null(self, _: int) -> Said:
        name = self._name(*EXACT, *APPROXIMATE, *STRINGS, *BOOLEANS, *NEVER)
        return self._joined(name, self._chance.choice((" IS NULL", " IS NOT NULL")))

    def _flag(self, _: int) -> Said:
        return self._name(*BOOLEANS, never="no_boolean")

    def _boolean(self, depth: int) -> Said:
        if depth and self._chance.random() < 0.3:
            return self._joined("(", self.condition(depth - 1), ")")
        if self._chance.random() < 0.4:
            return _alike(self._chance.choice(("TRUE", "FALSE", "true", "False")))
        return self._flag(depth)

    def _text(self) -> Said:
        if self._chance.random() < 0.4:
            return self._word(self._chance.choice(WORDS))
        return self._name(*STRINGS, never="no_string")

    def _number(self) -> Said:
        return self._exact(2) if self._chance.random() < 0.6 else self._approximate(2)

    def _exact(self, depth: int) -> Said:
        if not depth or self._chance.random() < 0.5:
            return self._exact_factor(0)
        return self._chain(self._chance.choice((" + ", " - ")), lambda: self._exact_product(depth - 1), (3, 4, 1))

    def _exact_product(self, depth: int) -> Said:
        first = self._exact_factor(depth)
        for _ in range(self._chance.choice((0, 0, 1, 2))):
            other = self._exact_factor(depth)
            if self._chance.random() < 0.5:
                first = self._joined(first, " * ", other)
            else:
                divisor = f"nullif({other.spark}, 0L)"
                first = self._joined(first, Said(" / ", " / ", " div "), other._replace(spark=divisor))
        return first

    def _exact_factor(self, depth: int) -> Said:
        kind = self._chance.random()
        if depth and kind < 0.3:
            return self._joined("(", self._exact(depth - 1), ")")
        if kind < 0.6:
            value = str(self._chance.randint(0, 20))
            said = Said(value, value, f"{value}L")
        else:
            said = self._name(*EXACT, never="no_number")
        return self._joined(self._chance.choice(("-", "+", "- -")), said) if kind % 0.1 < 0.03 else said

    def _approximate(self, depth: int) -> Said:
        if not depth or self._chance.random() < 0.5:
            return self._name(*APPROXIMATE)
        operator = self._chance.choice((" + ", " - ", " * ", " / "))
        if operator == " / ":
            return self._joined(self._name(*APPROXIMATE, *EXACT), operator, self._double())
        other = self._exact_factor(0) if self._chance.random() < 0.3 else self._double()
        return self._joined("(", self._approximate(depth - 1), operator, other, ")")

    def _double(self) -> Said:
        """Never zero: it may be a divisor."""
        value = self._chance.choice(("0.25", ".5", "2.", "3.5", "7E0", "1.25E1", "9e-1"))
        return Said(value, value, f"{value}D")

    def _chain(self, operator: str, maker: Callable[[], Said], weights: tuple[int, ...]) -> Said:
        (count,) = self._chance.choices(range(1, len(weights) + 1), weights)
        parts = [part for _ in range(count) for part in (operator, maker())][1:]
        return self._joined(*parts)

    def _sign(self, *signs: str) -> str:
        return f" {self._chance.choice(signs)} "

    def _name(self, *names: str, never: str = "") -> Said:
        return _alike(never if never and self._chance.random() < 0.1 else self._chance.choice(names))

    def _word(self, word: str) -> Said:
        doubled = "'" + word.replace("'", "''") + "'"
        return Said(doubled, doubled, "'" + word.replace("'", "\\'") + "'")

    def _joined(self, *parts: Said | str) -> Said:
        said = [part if isinstance(part, Said) else _alike(part) for part in parts]
        return Said(*("".join(pieces) for pieces in zip(*said, strict=True)))


def _alike(text: str) -> Said:
    return Said(text, text, text)
