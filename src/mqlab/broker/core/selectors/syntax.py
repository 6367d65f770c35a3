"""The syntax tree of a selector. Chains of one operator are flat: only brackets make a tree deeper."""

from dataclasses import dataclass
from enum import Enum


class ValueType(Enum):
    """The types that are told apart; the value says what it is called in a message to a person."""

    NUMBER = "a number"
    STRING = "a string"
    BOOLEAN = "a boolean"
    OTHER = "something else"


class Wildcard(Enum):
    """What LIKE does not take literally."""

    ONE = "_"
    MANY = "%"


@dataclass(frozen=True, slots=True)
class Literal:
    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Identifier:
    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    """`+x` is not `x`: it is a number or UNKNOWN."""

    operand: "Node"
    negative: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """From left to right; the operators of one chain have one precedence."""

    first: "Node"
    rest: "tuple[tuple[str, Node], ...]"


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class In:
    name: str
    values: tuple[str, ...]
    # NOT IN: an operation of its own, not the opposite of IN. Both are FALSE for a value that is not a string.
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    name: str
    # A piece is one character or a wildcard.
    pattern: tuple[str | Wildcard, ...]
    # NOT LIKE, as NOT IN.
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    name: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Node"


@dataclass(frozen=True, slots=True)
class And:
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    parts: "tuple[Node, ...]"


Node = Literal | Identifier | Signed | Arithmetic | Comparison | In | Like | IsNull | Not | And | Or


def kind_of(node: Node) -> ValueType | None:
    """The type of a value, as far as the text tells it; None for a property."""
    match node:
        case Identifier():
            return None
        case Literal(value=str()):
            return ValueType.STRING
        case Literal(value=bool()):
            return ValueType.BOOLEAN
        case Literal() | Signed() | Arithmetic():
            return ValueType.NUMBER
        case _:
            return ValueType.BOOLEAN
