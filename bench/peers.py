"""The embedded broker beside every other system that is installed here, by the same agents, in the same rounds.

A ... H: the scenarios of jms-four-brokers, in messages a second at the consumers.
P: one persistent sender that waits for each confirmation, to one consumer.
RR1, RR8: round trips of 1 KiB with 1 and 8 requesters over a shared reply queue, or the system's nearest to that.
Each key is the embedded broker's rate over that of the best other system, which stands beside it. Systems are set up
to sync what is persistent before they confirm it, those that cannot are left out of G, H and P.
A_per_message ...: the embedded broker with one message a batch, over the same other system as it is.
P, RR1 and RR8 are about waiting: there the embedded broker has `busy_wait` (RabbitMQ's scheduler waits like that by
itself). P_asleep ...: without it, as it is by default.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from _common import arguments, finish, ratio, say
from _lab import Lab, scenario
from mqlab.runner.capability import why_unsupported
from mqlab.study import Point
from mqlab.systems import SYSTEMS, SystemFailedError, system

OWN = "embedded"
ALONE = "embedded, per message"
AWAKE = "embedded:busy_wait=200"
WAITING = ("P", "RR1", "RR8")
LETTERS = "ABCDEFGH"
KIB = 1024
# Of a quick look: those that start at once and are the hardest to beat.
QUICK = ("nats", "redis")
# Their JVM compiles while they run.
WARM_UP = 1.0


@dataclass
class Side:
    """One system in one point: a rate for each round that it was measured in, or why it was not."""

    rates: list[float] = field(default_factory=list)
    why: str = ""


def points(measure: float, warmup: float) -> dict[str, Point]:
    found = {letter: scenario(letter, measure=measure, warmup=warmup) for letter in LETTERS}
    found["P"] = scenario(
        "G", measure=measure, warmup=warmup, scenario="P", destinations=1, producers=1, consumers=1, batch=1
    )
    asking = {
        "pattern": "request-reply", "domain": "queue", "producers": 0, "consumers": 0, "size": KIB, "batch": 1,
        "destinations": 1, "responders": 1, "persistent": False, "send": "free", "connections": "shared",
    }  # fmt: skip
    for requesters in (1, 8):
        name = f"RR{requesters}"
        found[name] = scenario("A", measure=measure, warmup=warmup, **asking, scenario=name, requesters=requesters)
    return found


def main() -> None:
    options = arguments(
        __doc__ or "", f"one short round, beside {' and '.join(QUICK)} alone",
        system="only beside this one", key="only this one",
    )  # fmt: skip
    chosen = points(0.3 if options.quick else 1.5, 0.2 if options.quick else WARM_UP)
    if options.smoke:
        options.key, options.system = ["A", "P", "RR1"], [OWN]
    keys = [key for key in chosen if not options.key or key in options.key]
    wanted = options.system or (QUICK if options.quick else SYSTEMS)
    others = [name for name in SYSTEMS if name in wanted and name not in (OWN, "external")]
    sides: dict[str, dict[str, Side]] = {}
    with Lab() as lab:
        for number in range(options.rounds or (1 if options.quick else 5)):
            for key in keys:
                say(f"round {number + 1}: {key}")
                _round(lab, chosen[key], number, others, sides.setdefault(key, {}))
    finish(**_results(keys, chosen, sides))


def _round(lab: Lab, point: Point, number: int, others: list[str], sides: dict[str, Side]) -> None:
    """Every system once, forwards and backwards in turn; the embedded one also message by message."""
    turns: dict[str, Callable[[], float]] = {OWN: lambda: lab.rate(point, OWN)}
    if point.scenario in WAITING:
        turns[AWAKE] = lambda: lab.rate(point, AWAKE)
    if point.batch > 1:
        alone = point.model_copy(update={"batch": 1})
        turns[ALONE] = lambda: lab.rate(alone, OWN)
    for name in others:
        turns[name] = partial(lab.rate, point, name)
    for name in list(turns) if number % 2 else reversed(list(turns)):
        side = sides.setdefault(name, Side())
        if not side.why:
            side.why = _cannot(name, point)
        if not side.why:
            _measure(name, side, turns[name])


def _cannot(name: str, point: Point) -> str:
    if name in (ALONE, AWAKE):
        return ""
    found = system(name)
    if point.persistent and found.durability().syncs != "before confirming":
        return "it does not sync before it confirms"
    return found.missing() or why_unsupported(found, point)


def _measure(name: str, side: Side, turn: Callable[[], float]) -> None:
    try:
        rate = turn()
        say(f"  {name}: {rate:,.0f}/s")
        if not rate:
            raise SystemExit("nothing arrived while it was measured")
        side.rates.append(rate)
    except (SystemExit, SystemFailedError) as error:
        side.why = str(error)
        say(f"  {name}: left out: {error}")


def _results(keys: list[str], chosen: dict[str, Point], sides: dict[str, dict[str, Side]]) -> dict[str, object]:
    ratios: dict[str, object] = {}
    for key in keys:
        # The plain one stands beside, under a name that says what it is.
        names = (AWAKE, OWN) if key in WAITING else (OWN, ALONE)
        own, beside = sides[key][names[0]], sides[key].get(names[1], Side())
        others = {name: side for name, side in sides[key].items() if name not in (OWN, ALONE, AWAKE)}
        whole = {name: side.rates for name, side in others.items() if not side.why and side.rates}
        best = max(whole, key=lambda name: median(whole[name]), default=None)
        if best is None or own.why:
            ratios[key] = {"why": own.why or "no other system could be measured"}
            continue
        ratios[key] = {**ratio(own.rates, whole[best]), "over": best}
        if beside.rates and not beside.why:
            name = f"{key}_asleep" if key in WAITING else f"{key}_per_message"
            ratios[name] = {**ratio(beside.rates, whole[best]), "over": best}
    rates = {
        key: {
            "in_flight": _in_flight(chosen[key]), "batch": chosen[key].batch,
            **{name: round(median(side.rates)) if side.rates else side.why for name, side in sides[key].items()},
        }
        for key in keys
    }  # fmt: skip
    return {**ratios, "rates": rates}


def _in_flight(point: Point) -> str:
    if point.pattern == "request-reply":
        return f"{point.requesters} requests"
    return f"{point.batch} a producer" if point.send == "confirmed" else "as many as the system takes"


if __name__ == "__main__":
    main()
