"""Diagrams drawn from parameters: producers, destinations and consumers of a point; the machines of a set-up."""

from collections.abc import Sequence
from html import escape
from typing import Final

from mqlab.report import words
from mqlab.study import Point

_LINE: Final = 34  # between two rows of boxes
_BOX: Final = 22
_LEFT, _MIDDLE, _RIGHT = 20, 170, 350  # where the columns of boxes begin
_WIDE, _WIDER = 84, 114


def point_diagram(point: Point) -> str:
    """Producers on the left, the destinations in the middle, consumers on the right; many are drawn as few."""
    left, right, middle = _shown(point.producers), _shown(point.consumers), _shown(point.destinations)
    rows = max(len(left), len(right), len(middle))
    height = 58 + rows * _LINE
    at = {"left": _heights(left, rows), "middle": _heights(middle, rows), "right": _heights(right, rows)}
    parts = [
        *_arrows(point, at, (_LEFT + _WIDE, _MIDDLE), "left"),
        *_arrows(point, at, (_MIDDLE + _WIDER, _RIGHT), "right"),
        *_boxes(left, at["left"], _LEFT, _WIDE, "producer"),
        *_boxes(middle, at["middle"], _MIDDLE, _WIDER, point.domain, _kind(point)),
        *_boxes(right, at["right"], _RIGHT, _WIDE, "consumer"),
        _words(_LEFT, 16, words.count(point.producers, "producer"), "caption"),
        _words(_MIDDLE, 16, words.count(point.destinations, point.domain), "caption"),
        _words(_RIGHT, 16, words.count(point.consumers, "consumer"), "caption"),
        _words(_LEFT, height - 10, _moves(point), "small"),
    ]
    return _svg(454, height, parts)


def setup_diagram(places: Sequence[tuple[str, Sequence[str]]]) -> str:
    """One frame a machine: its caption and the boxes inside it, from left to right."""
    parts: list[str] = []
    x = 12
    for caption, boxes in places:
        wide = 24 + len(boxes) * 132
        parts.append(_rect(x, 30, wide, 76, "machine"))
        parts.append(_words(x, 20, caption, "caption"))
        for n, box in enumerate(boxes):
            parts.append(_rect(x + 18 + n * 132, 52, 120, 34, "box"))
            parts.append(_words(x + 78 + n * 132, 73, box, "inside"))
            if n:
                parts.append(_arrow(x + 6 + n * 132, 69, x + 18 + n * 132, 69))
        x += wide + 34
        parts.append(_arrow(x - 34, 69, x, 69))
    return _svg(x - 22, 118, parts[:-1])


def _kind(point: Point) -> str:
    return "stored destination" if point.persistent else "destination"


def _moves(point: Point) -> str:
    kind = "persistent" if point.persistent else "non persistent"
    moved = f", transactions of {point.transaction}" if point.transaction else ""
    return f"{words.size(point.size)}, {kind}{moved}"


def _shown(count: int) -> list[int | None]:
    """The numbers to draw: all of a few, else the first two and the last, with a gap (None) for the rest."""
    return list(range(1, count + 1)) if count <= 4 else [1, 2, None, count]


def _heights(shown: Sequence[int | None], rows: int) -> list[int]:
    start = 30 + (rows - len(shown)) * _LINE // 2
    return [start + n * _LINE for n in range(len(shown))]


def _boxes(
    shown: Sequence[int | None], tops: Sequence[int], x: int, wide: int, name: str, kind: str = "box"
) -> list[str]:
    parts = []
    for number, top in zip(shown, tops, strict=True):
        if number is None:
            parts.append(_words(x + wide // 2, top + 16, "\u22ee", "gap"))
            continue
        parts.append(_rect(x, top, wide, _BOX, kind))
        text = f"{name} {number}" if len(shown) > 1 else name
        parts.append(_words(x + wide // 2, top + 15, text, "inside"))
    return parts


def _arrows(point: Point, at: dict[str, list[int]], across: tuple[int, int], side: str) -> list[str]:
    """A line for each drawn pair that talks: role n uses destination n modulo the number of destinations."""
    roles = _shown(point.producers if side == "left" else point.consumers)
    middle = _shown(point.destinations)
    pairs = [
        (role, destination)
        for role, number in enumerate(roles)
        for destination, other in enumerate(middle)
        if number is not None and other is not None
        if (number - 1) % point.destinations == other - 1
    ]
    lines = []
    for role, destination in pairs:
        ends = (at[side][role] + _BOX // 2, at["middle"][destination] + _BOX // 2)
        y1, y2 = ends if side == "left" else ends[::-1]
        lines.append(_arrow(across[0], y1, across[1], y2))
    return lines


def _rect(x: int, y: int, width: int, height: int, kind: str) -> str:
    look = {
        "box": 'rx="4" fill="#808a96" fill-opacity="0.10" stroke="#808a96"',
        "destination": 'rx="11" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb"',
        # Square and heavy: what lies here lies on the disk.
        "stored destination": 'rx="3" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb" stroke-width="2.2"',
        "machine": 'rx="8" fill="none" stroke="#808a96" stroke-dasharray="4 3"',
    }[kind]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {look}/>'


def _words(x: int, y: int, text: str, kind: str) -> str:
    look = {
        "inside": 'font-size="11px" text-anchor="middle"',
        "gap": 'font-size="14px" text-anchor="middle"',
        "caption": 'font-size="11px" font-weight="600"',
        "small": 'font-size="11px"',
    }[kind]
    return f'<text x="{x}" y="{y}" {look}>{escape(text)}</text>'


def _arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    look = 'fill="none" stroke="#808a96" stroke-width="1.2" marker-end="url(#tip)"'
    return f'<path d="M{x1},{y1}L{x2 - 3},{y2}" {look}/>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    tip = (
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
        '<path d="M0,0L6,3L0,6Z" fill="#808a96"/></marker></defs>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{tip}{"".join(parts)}</svg>'
