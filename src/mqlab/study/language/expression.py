"""The language of a claim's check: which expressions are accepted, and which measures they name.

Python's own grammar, cut down: `rate.received[H] / rate.received[G] > 1.2`. Here it is only parsed and checked;
its values come from the measures, in report/. Nothing is ever given to eval().

`metric[scenario]`              the measure of the system under judgement; `["a b"]` where a name is no plain word
`metric[scenario, size=1KiB]`   the same at the point with these parameters, in a scenario that has several
`metric[scenario, "point"]`     the same at the point of that name
`metric[scenario] of "system"`  of the system that stands for a published one
`min(x)` `max(x)` `mean(x)`     over all points that `size=*`, or a scenario like "Q*", stands for; the same in all of x
`impact(metric[...])`           the change against the base point, in percent
`spread(metric[...])`           over the systems: the best value / the worst
`lead(metric[...])`             over the systems: the best value / the second best
`first(metric[...])`            over the systems: the name of the best; to be compared with == or != and a "name"
`abs(x)` `min(x, y...)` `max(x, y...)` `+ - * /` `< <= > >=` (also chained) `and or not`
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mqlab.errors import MqlabError
from mqlab.study.language.reference import Reference
from mqlab.study.metric import METRICS

OVER_SYSTEMS: Final = ("spread", "lead", "first")
OVER_POINTS: Final = ("min", "max", "mean")
FUNCTIONS: Final = ("abs", *OVER_POINTS, "impact", *OVER_SYSTEMS)

# `latency.p99.9` would end as the number .9 for Python: the point between digits is hidden from its parser.
_FRACTION: Final = re.compile(r"(\.p\d+)\.(\d+)")
# `[A, size=1KiB] of "Q 1"` is no Python; `[A, "size":"1KiB", "":"Q 1"]` is, and means the same here.
_BRACKETS: Final = re.compile(r"""\[((?:"[^"]*"|'[^']*'|[^\[\]"'])*)\](?:\s*of\s+("[^"]*"|'[^']*'))?""")
_PARAMETER: Final = re.compile(r"""\s*([a-z][a-z0-9_.]*)\s*=\s*("[^"]*"|'[^']*'|[^,"'\[\]=]*?)\s*""")
_ITEMS: Final = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")
_ORDER: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# A claim is a sentence, not a program. The depth bounds the recursion here and of whoever walks the tree.
_LONGEST: Final = 1000
_DEEPEST: Final = 50


class ExpressionError(MqlabError, ValueError):
    """The text is no expression of this language; the message says what is accepted instead."""


@dataclass(frozen=True)
class Expression:
    text: str
    tree: ast.Expression

    def references(self) -> tuple[Reference, ...]:
        return references(self.tree)

    def metrics(self) -> frozenset[str]:
        return frozenset(found.metric for found in self.references())

    def systems(self) -> frozenset[str]:
        """The systems it names: it cannot be judged where one of them is missing."""
        compared = frozenset(
            side.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
            if isinstance(side, ast.Constant) and isinstance(side.value, str)
        )
        return compared | {found.system for found in self.references() if found.system}

    @property
    def about_each(self) -> bool:
        """Whether some part is about the system under judgement; otherwise one verdict serves all systems."""
        nodes = list(ast.walk(self.tree))
        calls = [node for node in nodes if isinstance(node, ast.Call) and called(node) in OVER_SYSTEMS]
        inside = {id(argument) for call in calls for argument in call.args}
        named = [node for node in nodes if isinstance(node, ast.Subscript) and id(node) not in inside]
        return any(not reference(node).system for node in named)


def parse(text: str) -> Expression:
    """Raises ExpressionError, with a sentence for the person who wrote the claim."""
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression has at most {_LONGEST} characters, this one {len(text)}")
    try:
        tree = ast.parse(_BRACKETS.sub(_as_python, _FRACTION.sub(r"\1_\2", text.strip())), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"'{text}' is no expression like rate.received[H] / rate.received[G] > 1.2") from None
    if _depth(tree) > _DEEPEST:
        raise ExpressionError(f"'{text}' is nested more than {_DEEPEST} times")
    _truth(tree.body)
    return Expression(text, tree)


def references(node: ast.AST) -> tuple[Reference, ...]:
    """All measures that a part of an expression names."""
    return tuple(reference(part) for part in ast.walk(node) if isinstance(part, ast.Subscript))


def reference(node: ast.Subscript) -> Reference:
    """What `metric[scenario, ...] of "system"` names."""
    metric = _metric(node.value)
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    pairs = [pair for item in index if (pair := _pair(item))]
    names = [_name(item) for item in index if not _pair(item)]
    if not 1 <= len(names) <= 2 or None in names or (len(names) == 2 and isinstance(index[1], ast.Name)):
        forms = f'{metric}[scenario], {metric}[scenario, size=1KiB] or {metric}[scenario, "point"]'
        raise ExpressionError(f"{text_of(node)}: write {forms}")
    where = tuple((key, value) for key, value in pairs if key)
    if where and len(names) == 2:
        raise ExpressionError(f"{text_of(node)}: write the name of the point or its parameters, not both")
    system = next((value for key, value in pairs if not key), "")
    scenario, point = [*(name for name in names if name is not None), ""][:2]
    return Reference(metric, scenario, point, where, system)


def called(node: ast.Call) -> str:
    """The function a call names."""
    name = node.func.id if isinstance(node.func, ast.Name) else text_of(node.func)
    if name not in FUNCTIONS:
        raise ExpressionError(f"there is no function {name}; accepted: {', '.join(FUNCTIONS)}")
    return name


def text_of(node: ast.expr) -> str:
    """A part of an expression as a person writes it."""
    text = re.sub(r"(\.p\d+)_(\d+)", r"\1.\2", ast.unparse(node)).replace("'", '"')
    text = re.sub(r',?\s*"":\s*"([^"]*)"\]', r'] of "\1"', text)
    return re.sub(r'"([^"]*)":\s*"([^"]*)"', r"\1=\2", text)


def _as_python(brackets: re.Match[str]) -> str:
    items = _ITEMS.findall(brackets[1])
    if brackets[1] and "".join(items).replace(",", "") != brackets[1].replace(",", ""):
        return brackets[0]
    rewritten = [_item_as_python(item) for item in items]
    if brackets[2]:
        rewritten.append(f'"":{brackets[2]}')
    return f"[{', '.join(rewritten)}]"


def _item_as_python(item: str) -> str:
    found = _PARAMETER.fullmatch(item)
    if found is None:
        return item
    value = found[2] if found[2][:1] in ("'", '"') else f'"{found[2]}"'
    return f'"{found[1]}":{value}'


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level, depth = [part for node in level for part in ast.iter_child_nodes(node)], depth + 1
    return depth


def _metric(node: ast.expr) -> str:
    name = text_of(node)
    if name not in METRICS:
        raise ExpressionError(f"there is no metric {name}; accepted: {', '.join(METRICS)}")
    return name


def _pair(node: ast.expr) -> tuple[str, str] | None:
    match node:
        case ast.Slice(lower=ast.Constant(value=str(key)), upper=ast.Constant(value=str(value)), step=None):
            return key, value
    return None


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int) and not isinstance(node.value, bool):
        return str(node.value)
    return None


def _truth(node: ast.expr) -> None:
    """Checks a part that is true or false."""
    match node:
        case ast.BoolOp(values=parts):
            for part in parts:
                _truth(part)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            _truth(part)
        case ast.Compare():
            _comparison(node)
        case _:
            raise ExpressionError(f"{text_of(node)} is neither true nor false; compare it, for instance with > 1.2")


def _comparison(node: ast.Compare) -> None:
    sides = (node.left, *node.comparators)
    if all(isinstance(operator, _ORDER) for operator in node.ops):
        for side in sides:
            _number(side)
        return
    if len(sides) == 2 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        first, second = sides
        if _is_first(first) and isinstance(second, ast.Constant) and isinstance(second.value, str):
            return
    raise ExpressionError(
        f'{text_of(node)}: compare values with <, <=, > or >=, and first(...) with == or != and a "system"'
    )


def _is_first(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and called(node) == "first"):
        return False
    _one_measure(node)
    return True


def _one_measure(node: ast.Call) -> Reference:
    if len(node.args) != 1 or node.keywords or not isinstance(node.args[0], ast.Subscript):
        raise ExpressionError(f"{text_of(node)}: {called(node)}() takes one measure, like rate.received[A]")
    found = reference(node.args[0])
    if found.system and called(node) in OVER_SYSTEMS:
        raise ExpressionError(f"{text_of(node)}: {called(node)}() is over all systems; leave out of")
    return found


def _number(node: ast.expr, over_points: bool = False) -> None:
    """Checks a part that is a number; `over_points`: inside of min, max or mean over points."""
    match node:
        case ast.Constant(value=bool() | str()):
            raise ExpressionError(f"{text_of(node)} is not a number")
        case ast.Constant(value=int() | float()):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=part):
            _number(part, over_points)
        case ast.BinOp(op=operator) if isinstance(operator, _ARITHMETIC):
            _number(node.left, over_points)
            _number(node.right, over_points)
        case ast.Subscript():
            _measure(node, reference(node), over_points)
        case ast.Call():
            _call(node, over_points)
        case _:
            raise ExpressionError(f"{text_of(node)} is not accepted; name a measure like rate.received[A] or a number")


def _measure(node: ast.expr, found: Reference, over_points: bool) -> None:
    if found.open and not over_points:
        raise ExpressionError(f"{text_of(node)} stands for several points; take the min(), max() or mean() of it")


def _call(node: ast.Call, over_points: bool) -> None:
    name = called(node)
    if name == "first":
        raise ExpressionError(f"{text_of(node)} is a name; compare it with == or != and a system in quotes")
    if name in OVER_SYSTEMS or name == "impact":
        _measure(node, _one_measure(node), over_points)
        return
    count = len(node.args)
    if node.keywords or (count != 1 if name in ("abs", "mean") else count < 1):
        raise ExpressionError(f"{text_of(node)}: {name}() takes {'one value' if name in ('abs', 'mean') else 'values'}")
    if count == 1 and name in OVER_POINTS:
        _over_points(node, over_points)
        return
    for argument in node.args:
        _number(argument, over_points)


def _over_points(node: ast.Call, nested: bool) -> None:
    if nested or not any(found.open for found in references(node.args[0])):
        raise ExpressionError(
            f"{text_of(node)}: with one value {called(node)}() takes two values or more,"
            " or a measure of several points like rate.received[A, size=*]"
        )
    _number(node.args[0], over_points=True)


def open_references(node: ast.AST) -> Iterator[Reference]:
    """Those that stand for several points; in a min, max or mean over points all of them run together."""
    return (found for found in references(node) if found.open)
