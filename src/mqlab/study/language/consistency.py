"""Checks that the parameters of a scenario are complete and consistent. Each violation is one sentence."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from mqlab.study.language.units import format_size, format_time
from mqlab.study.language.value_types import MAX_ROLES, Parameters
from mqlab.study.load.destination_shares import shares_of
from mqlab.study.load.sizes import LARGEST_BODY, SMALLEST_REPLY
from mqlab.study.point import Point

_REQUEST_REPLY_ROLES: Final = ("requesters", "responders", "clients", "threads")


def check_complete(values: Parameters) -> None:
    """Raise ValueError if a parameter is missing or belongs to another pattern."""
    patterns = values["pattern"] if isinstance(values["pattern"], tuple) else (values["pattern"],)
    if len(patterns) > 1:
        raise ValueError("pattern: the two patterns have different roles; write a scenario for each")
    if "topics" not in values and "queues" not in values:
        raise ValueError("no destination; write topics: 1 or queues: 1")
    request_reply = patterns == ("request-reply",)
    for name in ("producers", "consumers") if request_reply else _REQUEST_REPLY_ROLES:
        if name in values:
            roles = "requesters and responders" if request_reply else "producers and consumers"
            raise ValueError(f"{name} do not belong to pattern: {patterns[0]}; write {roles}")
    if request_reply and "topics" in values:
        raise ValueError("requests and replies go through queues; write queues: 1 instead of topics")
    if request_reply and "requesters" not in values and "clients" not in values:
        raise ValueError(
            "requesters is missing here and in defaults; write requesters: 10, or clients: 2 and threads: 5"
        )
    for name in ("responders",) if request_reply else ("producers", "consumers"):
        if name not in values:
            raise ValueError(f"{name} is missing here and in defaults")
    bodies = values.get("message.body")
    has_files = [body is not None for body in (bodies if isinstance(bodies, tuple) else (bodies,))]
    if not all(has_files) and "message.size" not in values:
        raise ValueError("message.size is missing here and in defaults")
    if any(has_files) and "message.size" in values:
        raise ValueError("message.size: the files of message.body have sizes of their own; leave one of them out")


def first_inconsistency(point: Point) -> str:
    """Return the first violation of the point, or "" if it is consistent."""
    return next(_inconsistencies(point), "")


def deprecations(points: Iterable[Point]) -> list[str]:
    """Return a sentence for each scenario that uses a parameter in a former meaning."""
    # Former versions packed batches.
    batches = {point.scenario: point.batch for point in points if point.batch > 1 and point.send == "free"}
    return [
        f"scenario {scenario}: batch: {batch} with send: free is deprecated, and packs nothing;"
        f" pack messages with the setting packed={batch} of a system, like --system embedded:packed={batch}"
        for scenario, batch in batches.items()
    ]


def _inconsistencies(point: Point) -> Iterator[str]:
    yield from _role_counts(point)
    if point.durable and point.domain != "topic":
        yield "durable is for subscriptions to topics, and this scenario uses queues; leave it out, or write topics"
    if point.pattern == "request-reply":
        yield from _request_reply(point)
    elif point.preload and not point.selector:
        yield "the consumers would receive the preloaded messages; give them a selector, like selector: seq >= 0"
    if point.load == "receive" and point.domain == "topic" and not point.durable:
        yield "load: receive reads messages sent before, which a topic keeps for durable subscriptions only"
    if point.load == "receive" and point.messages is None:
        yield "load: receive needs a number of messages to send before; write messages: 10000"
    if point.faults:
        yield from _faults(point)
    if point.switch:
        yield from _switch(point)
    if point.think and point.loop == "open":
        yield f"a schedule says when messages are sent; leave out think: {format_time(point.think)} or the rate"
    if point.has_varied_bodies and point.send == "confirmed" and point.batch > 1:
        yield f"messages of different sizes are confirmed one by one; leave out batch: {point.batch}"
    if point.properties or point.has_headers:
        yield from _properties(point)
    if point.batch * point.size > LARGEST_BODY:
        yield (
            f"{point.batch} messages of {format_size(point.size)} are too large for a batch;"
            f" at most {format_size(LARGEST_BODY)} are accepted"
        )


def _shares(point: Point) -> Iterator[str]:
    if point.pattern == "request-reply":
        yield "shares do not belong to pattern: request-reply; leave them out"
    elif point.loop == "closed" and point.messages is None:
        yield "shares need a rate or a number of messages: without, producers send as fast as they can"
    try:
        shares_of(point.shares, point.destinations)
    except ValueError as error:
        yield str(error)


def _properties(point: Point) -> Iterator[str]:
    for name in sorted({"seq", "producer"} & point.properties.keys()):
        yield f"properties: {name} is a property that the lab gives to messages for selectors; take another name"
    if point.pattern == "request-reply":
        for name in ("properties", "priority", "expires", "key"):
            if getattr(point, name):
                yield f"message.{name} does not belong to pattern: request-reply; leave it out"


def _role_counts(point: Point) -> Iterator[str]:
    if point.shares:
        yield from _shares(point)
    request_reply = point.pattern == "request-reply"
    for role in ("requesters", "responders") if request_reply else ("producers", "consumers"):
        count = getattr(point, role)
        if role == "consumers" and count == 0:
            if point.load != "send":
                yield "consumers: 0 is accepted with load: send only"
        elif count < point.destinations:
            yield (
                f"{point.destinations} {point.domain}s need at least as many {role}, not {count}"
                f" (number n uses {point.domain} n modulo {point.destinations})"
            )
        if count > MAX_ROLES:
            yield f"clients x threads are {count} {role}; at most {MAX_ROLES} are accepted"


def _faults(point: Point) -> Iterator[str]:
    if point.pattern != "one-way" or point.load != "both" or point.messages is not None:
        yield "faults need pattern: one-way and load: both for a time; leave messages out"
    if point.loop != "open":
        yield "faults need a load that goes on while the system does not answer; write a rate, like rate: 500/s"
    if point.send != "confirmed" and not point.transaction:
        yield "after a fault, producers send again what was not confirmed; write send: confirmed"
    if point.topology != "client":
        yield f"faults need a system in a process of its own; topology: {point.topology} has none"
    planned = [(fault, fault.moments(point.phases.measure)) for fault in point.planned_faults]
    for fault, moments in planned:
        if not moments:
            yield f"'{fault.text}' does not end within the measure phase of {format_time(point.phases.measure)}"
    times = sorted((moment, moment + fault.for_s) for fault, moments in planned for moment in moments)
    if any(begin <= end for (_, end), (begin, _) in pairwise(times)):
        yield f"faults: '{point.faults}' begins a fault while another one lasts; write later times"


def _switch(point: Point) -> Iterator[str]:
    if point.messages is not None or point.load != "both":
        yield "switch needs load: both for a time; leave messages out"
    unsupported = {
        "faults": bool(point.faults),
        "a rate that changes": bool(point.profile),
        "a share of the peak": point.peak_share is not None,
    }
    for name in (name for name, declared in unsupported.items() if declared):
        yield f"switch does not go with {name}; leave one of them out"


def _request_reply(point: Point) -> Iterator[str]:
    unsupported = {
        "load": point.load != "both",
        "transaction": point.transaction > 0,
        "consume_rate": point.consume_rate is not None,
        "selector": bool(point.selector),
    }
    for name in (name for name, declared in unsupported.items() if declared):
        yield f"{name} does not belong to pattern: request-reply; leave it out"
    if min(point.body_sizes) < SMALLEST_REPLY:
        yield f"a reply carries the id of its request, so a body has at least {format_size(SMALLEST_REPLY)} here"
    if point.batch > 1:
        yield f"a requester waits for each reply, so a batch of {point.batch} is not possible; leave batch out"
