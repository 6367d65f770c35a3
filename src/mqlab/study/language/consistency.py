"""Whether the parameters of a scenario fit together: each thing that does not is one sentence."""

from collections.abc import Iterator
from typing import Any, Final

from mqlab.study.language.units import format_size
from mqlab.study.language.value_types import LARGEST_BODY, MOST_ROLES
from mqlab.study.point import Point

_ASKING: Final = ("requesters", "responders", "clients", "threads")


def check_complete(values: dict[str, Any]) -> None:
    """Raises ValueError where something is missing, or belongs to another pattern."""
    patterns = values["pattern"] if isinstance(values["pattern"], tuple) else (values["pattern"],)
    if len(patterns) > 1:
        raise ValueError("pattern: the two patterns have other roles; write a scenario for each")
    if "topics" not in values and "queues" not in values:
        raise ValueError("no destination; write topics: 1 or queues: 1")
    asking = patterns == ("request-reply",)
    for name in ("producers", "consumers") if asking else _ASKING:
        if name in values:
            roles = "requesters and responders" if asking else "producers and consumers"
            raise ValueError(f"{name} do not belong to pattern: {patterns[0]}; write {roles}")
    if asking and "topics" in values:
        raise ValueError("requests and replies go through queues; write queues: 1 instead of topics")
    if asking and "requesters" not in values and "clients" not in values:
        raise ValueError(
            "requesters is missing here and in defaults; write requesters: 10, or clients: 2 and threads: 5"
        )
    for name in ("responders", "message.size") if asking else ("producers", "consumers", "message.size"):
        if name not in values:
            raise ValueError(f"{name} is missing here and in defaults")


def first_problem(point: Point) -> str:
    """What does not fit in this point; "" when all does."""
    return next(_problems(point), "")


def _problems(point: Point) -> Iterator[str]:
    yield from _roles(point)
    if point.durable and point.domain != "topic":
        yield "durable is about subscriptions to topics, and these are queues; leave it out, or write topics"
    if point.pattern == "request-reply":
        yield from _asking(point)
    elif point.preload and not point.selector:
        yield "the consumers would take what is preloaded; give them a selector, like selector: seq >= 0"
    if point.load == "receive" and point.domain == "topic" and not point.durable:
        yield "load: receive finds what was sent before, which a topic keeps for durable subscriptions only"
    if point.load == "receive" and point.messages is None:
        yield "load: receive needs a number of messages to fill in before; write messages: 10000"
    if point.transaction and point.transaction % point.batch:
        yield f"a transaction of {point.transaction} is not a whole number of batches of {point.batch}"
    if point.batch * point.size > LARGEST_BODY:
        yield (
            f"{point.batch} messages of {format_size(point.size)} do not move together;"
            f" at most {format_size(LARGEST_BODY)} do"
        )


def _roles(point: Point) -> Iterator[str]:
    asking = point.pattern == "request-reply"
    for role in ("requesters", "responders") if asking else ("producers", "consumers"):
        count = getattr(point, role)
        if role == "consumers" and count == 0:
            if point.load != "send":
                yield "consumers: 0 is for load: send only; somebody must receive"
        elif count < point.destinations:
            yield (
                f"{point.destinations} {point.domain}s need at least as many {role}, not {count}"
                f" (number n uses {point.domain} n modulo {point.destinations})"
            )
        if count > MOST_ROLES:
            yield f"clients x threads are {count} {role}; at most {MOST_ROLES} are accepted"


def _asking(point: Point) -> Iterator[str]:
    unfit = {
        "load": point.load != "both",
        "transaction": point.transaction > 0,
        "consume_rate": point.consume_rate is not None,
        "selector": bool(point.selector),
    }
    for name in (name for name, written in unfit.items() if written):
        yield f"{name} does not belong to pattern: request-reply; leave it out"
    if point.batch > 1:
        yield f"a requester waits for each reply, so a batch of {point.batch} cannot be; leave batch out"
