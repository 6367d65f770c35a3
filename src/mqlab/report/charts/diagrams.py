"""Diagrams drawn from parameters: the roles and destinations of a point; the machines of a set-up."""

from collections.abc import Sequence
from typing import Final

from mqlab.report.charts.flow_diagrams import distributed_diagram, frame, kind, message_caption, reply_diagram
from mqlab.report.charts.shapes import BOX, arrow, picture, rect, text_at
from mqlab.report.render import formatting
from mqlab.study import Point

_LINE: Final = 34  # between two rows of boxes
_LEFT, _MIDDLE, _RIGHT = 20, 170, 350  # where the columns of boxes begin
_WIDE, _WIDER = 84, 114


def point_diagram(point: Point) -> str:
    """The flow of messages in this point; of many roles of one kind a few are drawn."""
    if point.topology == "distributed":
        return distributed_diagram(point)
    return reply_diagram(point) if point.pattern == "request-reply" else one_way_diagram(point)


def one_way_diagram(point: Point) -> str:
    """Producers on the left, the destinations in the middle, consumers on the right."""
    left, right, middle = _shown(point.producers), _shown(point.consumers), _shown(point.destinations)
    rows = max(len(left), len(right), len(middle))
    height = 58 + rows * _LINE
    at = {"left": _heights(left, rows), "middle": _heights(middle, rows), "right": _heights(right, rows)}
    receivers = formatting.count(point.consumers, "consumer") if point.consumers else "no consumers"
    parts = [
        *_arrows(point, at, (_LEFT + _WIDE, _MIDDLE), "left"),
        *_arrows(point, at, (_MIDDLE + _WIDER, _RIGHT), "right"),
        *_boxes(left, at["left"], _LEFT, _WIDE, "producer"),
        *_boxes(middle, at["middle"], _MIDDLE, _WIDER, point.domain, kind(point)),
        *_boxes(right, at["right"], _RIGHT, _WIDE, "consumer"),
        text_at(_LEFT, 16, formatting.count(point.producers, "producer"), "caption"),
        text_at(_MIDDLE, 16, formatting.count(point.destinations, point.domain), "caption"),
        text_at(_RIGHT, 16, receivers, "caption"),
        text_at(_LEFT, height - 10, message_caption(point), "small"),
        *frame(point, 454, height),
    ]
    return picture(454, height, parts)


def setup_diagram(places: Sequence[tuple[str, Sequence[str]]]) -> str:
    """One frame for each machine: its caption and the boxes inside it, from left to right."""
    parts: list[str] = []
    x = 12
    for caption, boxes in places:
        wide = 24 + len(boxes) * 132
        parts.append(rect(x, 30, wide, 76, "machine"))
        parts.append(text_at(x, 20, caption, "caption"))
        for n, box in enumerate(boxes):
            parts.append(rect(x + 18 + n * 132, 52, 120, 34, "box"))
            parts.append(text_at(x + 78 + n * 132, 73, box, "inside"))
            if n:
                parts.append(arrow(x + 6 + n * 132, 69, x + 18 + n * 132, 69))
        x += wide + 34
        parts.append(arrow(x - 34, 69, x, 69))
    return picture(x - 22, 118, parts[:-1])


def _shown(count: int) -> list[int | None]:
    """The numbers to draw: all of a few, else the first two and the last, with a gap (None) for the rest."""
    return list(range(1, count + 1)) if count <= 4 else [1, 2, None, count]


def _heights(shown: Sequence[int | None], rows: int) -> list[int]:
    start = 30 + (rows - len(shown)) * _LINE // 2
    return [start + n * _LINE for n in range(len(shown))]


def _boxes(
    shown: Sequence[int | None], tops: Sequence[int], x: int, wide: int, name: str, look: str = "box"
) -> list[str]:
    parts = []
    for number, top in zip(shown, tops, strict=True):
        if number is None:
            parts.append(text_at(x + wide // 2, top + 16, "\u22ee", "gap"))
            continue
        parts.append(rect(x, top, wide, BOX, look))
        text = f"{name} {number}" if len(shown) > 1 else name
        parts.append(text_at(x + wide // 2, top + 15, text, "inside"))
    return parts


def _arrows(point: Point, at: dict[str, list[int]], across: tuple[int, int], side: str) -> list[str]:
    """One arrow for each drawn role and its destination: role n uses destination n modulo their number."""
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
        ends = (at[side][role] + BOX // 2, at["middle"][destination] + BOX // 2)
        y1, y2 = ends if side == "left" else ends[::-1]
        lines.append(arrow(across[0], y1, across[1], y2))
    return lines
