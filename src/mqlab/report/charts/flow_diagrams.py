"""Diagrams of requests and their replies, within one broker and between two."""

from typing import Final

from mqlab.report.charts.shapes import arrow, box, picture, rect, text_at
from mqlab.report.render import formatting
from mqlab.study import Point

_ROLE: Final = 104  # the width of a box of roles
_QUEUE: Final = 124
_OUT, _BACK = 44, 98  # the heights of the arrows of requests and replies


def kind(point: Point) -> str:
    return "stored destination" if point.persistent else "destination"


def message_caption(point: Point) -> str:
    """The caption of a diagram: the size and the kind of its messages."""
    delivery = "persistent" if point.persistent else "non persistent"
    transactions = f", transactions of {point.transaction}" if point.transaction else ""
    shared = f"; {formatting.count(point.clients, 'connection')}" if point.clients else ""
    waiting = f"; {point.preload:,} more wait on the queue" if point.preload else ""
    side = {"both": "", "send": "; only sending is measured", "receive": "; filled first, then only received"}
    return f"{formatting.size(point.size)}, {delivery}{transactions}{shared}{waiting}{side[point.load]}"


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
    one, two, three, four = 20, 162, 398, 562
    parts = [
        rect(8, 22, 294, 104, "machine"),
        rect(386, 22, 292, 104, "machine"),
        text_at(10, 16, "broker A", "caption"),
        text_at(388, 16, "broker B", "caption"),
        *_role(one, *senders),
        *_role(four, *takers),
        *box(two, _OUT - 11, _QUEUE, "to B: transmission", kind(point)),
        *box(three, _OUT - 11, _QUEUE, "request queue" if replies else point.domain, kind(point)),
        arrow(one + _ROLE, _OUT, two, _OUT),
        arrow(two + _QUEUE, _OUT, three, _OUT),
        arrow(three + _QUEUE, _OUT, four, _OUT),
        text_at(320, _OUT - 6, "channel", "small"),
        text_at(
            10, 148, f"{formatting.count(*senders)}, {formatting.count(*takers)}; {message_caption(point)}", "small"
        ),
    ]
    if replies:
        parts += [
            *box(two, _BACK - 11, _QUEUE, "reply queue", kind(point)),
            *box(three, _BACK - 11, _QUEUE, "to A: transmission", kind(point)),
            arrow(four, _BACK, three + _QUEUE, _BACK),
            arrow(three, _BACK, two + _QUEUE, _BACK),
            arrow(two, _BACK, one + _ROLE, _BACK),
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
