"""Diagrams drawn from parameters: the roles and destinations of a point; the machines of a set-up."""

from collections.abc import Sequence
from html import escape
from typing import Final

from mqlab.report.render import formatting
from mqlab.study import Point

BOX = 22  # the height of a box


def rect(x: int, y: int, width: int, height: int, kind: str) -> str:
    look = {
        "box": 'rx="4" fill="#808a96" fill-opacity="0.10" stroke="#808a96"',
        "destination": 'rx="11" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb"',
        # Square and bold: a destination of persistent messages.
        "stored destination": 'rx="3" fill="#1f6feb" fill-opacity="0.12" stroke="#1f6feb" stroke-width="2.2"',
        "machine": 'rx="8" fill="none" stroke="#808a96" stroke-dasharray="4 3"',
    }[kind]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {look}/>'


def text_at(x: int, y: int, text: str, kind: str) -> str:
    look = {
        "inside": 'font-size="11px" text-anchor="middle"',
        "gap": 'font-size="14px" text-anchor="middle"',
        "caption": 'font-size="11px" font-weight="600"',
        "small": 'font-size="11px"',
    }[kind]
    return f'<text x="{x}" y="{y}" {look}>{escape(text)}</text>'


def box(x: int, y: int, width: int, text: str, kind: str = "box") -> list[str]:
    return [rect(x, y, width, BOX, kind), text_at(x + width // 2, y + 15, text, "inside")]


def arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    look = 'fill="none" stroke="#808a96" stroke-width="1.2" marker-end="url(#tip)"'
    end = x2 - 3 if x2 >= x1 else x2 + 3
    return f'<path d="M{x1},{y1}L{end},{y2}" {look}/>'


def picture(width: int, height: int, parts: Sequence[str]) -> str:
    tip = (
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">'
        '<path d="M0,0L6,3L0,6Z" fill="#808a96"/></marker></defs>'
    )
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{tip}{"".join(parts)}</svg>'


_ROLE: Final = 104  # the width of a box of roles
_QUEUE: Final = 124
_OUT, _BACK = 44, 98  # the heights of the arrows of requests and replies


def kind(point: Point) -> str:
    return "stored destination" if point.persistent else "destination"


def message_caption(point: Point) -> str:
    delivery = "persistent" if point.persistent else "non persistent"
    transactions = f", transactions of {point.transaction}" if point.transaction else ""
    shared = f"; {formatting.count(point.clients, 'connection')}" if point.clients else ""
    waiting = f"; {point.preload:,} more wait on the queue" if point.preload else ""
    side = {"both": "", "send": "; only sending is measured", "receive": "; filled first, then only received"}
    return f"{formatting.bodies(point)}, {delivery}{transactions}{shared}{waiting}{side[point.load]}"


def frame(point: Point, width: int, height: int) -> list[str]:
    """The frame around a point with bindings, whose broker and applications are one process."""
    if point.topology != "bindings":
        return []
    inside = rect(6, 22, width - 12, height - 46, "machine")
    return [inside, text_at(width - 214, height - 10, "all in one process (bindings)", "caption")]


def reply_diagram(point: Point) -> str:
    """Requesters, the pair of queues and responders; requests run above, replies below."""
    queues = point.destinations
    left, middle, right = 20, 196, 392
    requests = "request queue" if queues == 1 else f"{queues:,} request queues"
    replies = "reply queue" if queues == 1 else f"{queues:,} reply queues"
    parts = [
        *_role(left, point.requesters, "requester"),
        *_role(right, point.responders, "responder"),
        *box(middle, _OUT - 11, _QUEUE, requests, kind(point)),
        *box(middle, _BACK - 11, _QUEUE, replies, kind(point)),
        arrow(left + _ROLE, _OUT, middle, _OUT),
        arrow(middle + _QUEUE, _OUT, right, _OUT),
        arrow(right, _BACK, middle + _QUEUE, _BACK),
        arrow(middle, _BACK, left + _ROLE, _BACK),
        *_captions(point, (left, middle, right)),
        text_at(left, 148, message_caption(point), "small"),
        *frame(point, 516, 158),
    ]
    return picture(516, 158, parts)


def distributed_diagram(point: Point) -> str:
    """Two brokers with a channel each way: messages for a remote queue wait on a transmission queue."""
    replies = point.pattern == "request-reply"
    senders = (point.requesters, "requester") if replies else (point.producers, "producer")
    takers = (point.responders, "responder") if replies else (point.consumers, "consumer")
    left, queue_a, queue_b, right = 20, 162, 398, 562
    parts = [
        rect(8, 22, 294, 104, "machine"),
        rect(386, 22, 292, 104, "machine"),
        text_at(10, 16, "broker A", "caption"),
        text_at(388, 16, "broker B", "caption"),
        *_role(left, *senders),
        *_role(right, *takers),
        *box(queue_a, _OUT - 11, _QUEUE, "to B: transmission", kind(point)),
        *box(queue_b, _OUT - 11, _QUEUE, "request queue" if replies else point.domain, kind(point)),
        arrow(left + _ROLE, _OUT, queue_a, _OUT),
        arrow(queue_a + _QUEUE, _OUT, queue_b, _OUT),
        arrow(queue_b + _QUEUE, _OUT, right, _OUT),
        text_at(320, _OUT - 6, "channel", "small"),
        text_at(
            10, 148, f"{formatting.count(*senders)}, {formatting.count(*takers)}; {message_caption(point)}", "small"
        ),
    ]
    if replies:
        parts += [
            *box(queue_a, _BACK - 11, _QUEUE, "reply queue", kind(point)),
            *box(queue_b, _BACK - 11, _QUEUE, "to A: transmission", kind(point)),
            arrow(right, _BACK, queue_b + _QUEUE, _BACK),
            arrow(queue_b, _BACK, queue_a + _QUEUE, _BACK),
            arrow(queue_a, _BACK, left + _ROLE, _BACK),
            text_at(320, _BACK - 6, "channel", "small"),
        ]
    return picture(688, 158, parts)


def _role(x: int, count: int, name: str) -> list[str]:
    """One tall box for all roles of a kind, which share the queues."""
    text = name if count == 1 else f"{name} 1 to {count:,}"
    middle = (_OUT + _BACK) // 2 + 4
    tall = rect(x, _OUT - 16, _ROLE, _BACK - _OUT + 32, "box")
    return [tall, text_at(x + _ROLE // 2, middle, text, "inside")]


def _captions(point: Point, columns: tuple[int, int, int]) -> list[str]:
    texts = (
        formatting.count(point.requesters, "requester"),
        formatting.count(point.destinations, "pair of queues", "pairs of queues"),
        formatting.count(point.responders, "responder"),
    )
    return [text_at(x, 16, text, "caption") for x, text in zip(columns, texts, strict=True)]


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
