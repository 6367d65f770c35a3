"""Which points a claim compares with each other: by a ratio, a difference or an order."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from mqlab.study.language.expression import OVER_POINTS, Expression, function_name, open_references, parse_reference
from mqlab.study.language.reference import PointIndex
from mqlab.study.point import Point

PointName = tuple[str, str]  # a scenario and the name of a point


def compared_points(expression: Expression, points: Sequence[Point]) -> list[frozenset[PointName]]:
    """The points of each comparison that is about several."""
    comparisons = _Comparisons(points)
    comparisons.visit(expression.tree.body)
    return comparisons.found


class _Comparisons:
    def __init__(self, points: Sequence[Point]) -> None:
        self._points = PointIndex(points)
        self.found: list[frozenset[PointName]] = []

    def visit(self, node: ast.AST, bound_to: Point | None = None) -> frozenset[PointName]:
        """The points that a part is about; its comparisons are added. `bound_to`: the point of open references."""
        if isinstance(node, ast.Subscript):
            reference = parse_reference(node)
            reference = reference.bound(bound_to) if bound_to else reference
            return frozenset((point.scenario, point.name) for point in self._points.find(reference))
        if isinstance(node, ast.Call) and function_name(node) in OVER_POINTS and len(node.args) == 1:
            # The least or greatest of several values is one of them: each is about its own point.
            first = next(open_references(node.args[0]))
            return _union([self.visit(node.args[0], point) for point in self._points.find(first)])
        parts = [self.visit(part, bound_to) for part in _parts(node)]
        about = _union(parts)
        if isinstance(node, ast.BinOp | ast.Compare) and sum(map(bool, parts)) > 1 and len(about) > 1:
            self.found.append(about)
        return about


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return (part for part in parts if not isinstance(part, ast.Name))


def _union(parts: Iterable[frozenset[PointName]]) -> frozenset[PointName]:
    return frozenset(name for part in parts for name in part)
