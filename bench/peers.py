"""The embedded broker beside every other system that is installed here, by the same agents, in the same rounds.

A ... H: the scenarios of jms-four-brokers, message by message, in messages a second at the consumers.
P: one persistent sender to one consumer, confirmed one by one.
RR1, RR8: round trips of 1 KiB, message by message, with 1 and 8 requesters over a shared reply queue, or the system's
nearest to that.
A_packed ... F_packed: A ... F, packed: every system gets the same number of records in one message, on both sides.
Each key is the embedded broker's rate over that of the best other system, which stands beside it with the way in which
the messages of both travelled. Systems are set up to sync what is persistent before they confirm it; those that cannot
are left out of G, H and P.
P, RR1 and RR8 are about waiting: there the embedded broker has `busy_wait` (RabbitMQ's scheduler waits like that by
itself). P_asleep ...: without it, as it is by default.
"""

from dataclasses import dataclass

from _common import arguments, finish, ratio, say
from _lab import Lab, scenario
from _systems_in_turn import Side, best, play_round
from mqlab.study import Point
from mqlab.study.travel import CONFIRMED_ONE_BY_ONE, MESSAGE_BY_MESSAGE, PACKED
from mqlab.systems import SYSTEMS

OWN = "embedded"
AWAKE = "embedded:busy_wait=200"
WAITING = ("P", "RR1", "RR8")
LETTERS = "ABCDEFGH"
KIB = 1024
# Packed messages: the scenarios, and the records in a message by the size of a record.
PACKED_LETTERS = "ABCDEF"
RECORDS = {12: 4096, KIB: 256}
# Of a quick look: those that start at once and are the hardest to beat.
QUICK = ("nats", "redis")
# Their JVM compiles while they run.
WARM_UP = 1.0


@dataclass(frozen=True)
class Key:
    """What one key measures; `records` in each message, 1 without packing."""

    point: Point
    records: int = 1

    @property
    def travel(self) -> str:
        if self.records > 1:
            return f"{PACKED}, {self.records:,} records a message"
        one_way = self.point.pattern == "one-way"
        confirmed = one_way and self.point.send == "confirmed" and not self.point.transaction
        return CONFIRMED_ONE_BY_ONE if confirmed else MESSAGE_BY_MESSAGE

    def on(self, name: str) -> str:
        """The system with the setting for packed messages, if the key has them."""
        if self.records == 1:
            return name
        return f"{name}{',' if ':' in name else ':'}packed={self.records}"


def keys(measure: float, warmup: float) -> dict[str, Key]:
    found = {letter: Key(scenario(letter, measure=measure, warmup=warmup)) for letter in LETTERS}
    found["P"] = Key(
        scenario("G", measure=measure, warmup=warmup, scenario="P", destinations=1, producers=1, consumers=1)
    )
    asking = {
        "pattern": "request-reply", "domain": "queue", "producers": 0, "consumers": 0, "size": KIB,
        "destinations": 1, "responders": 1, "persistent": False, "send": "free", "connections": "shared",
    }  # fmt: skip
    for requesters in (1, 8):
        name = f"RR{requesters}"
        point = scenario("A", measure=measure, warmup=warmup, **asking, scenario=name, requesters=requesters)
        found[name] = Key(point)
    for letter in PACKED_LETTERS:
        point = found[letter].point
        found[f"{letter}_packed"] = Key(point, RECORDS[point.size])
    return found


def points(measure: float, warmup: float) -> dict[str, Point]:
    """The points of the keys that are not packed."""
    return {name: key.point for name, key in keys(measure, warmup).items() if key.records == 1}


def main() -> None:
    options = arguments(
        __doc__ or "", f"one short round, beside {' and '.join(QUICK)} alone",
        system="only beside this one", key="only this one",
    )  # fmt: skip
    chosen = keys(0.3 if options.quick else 1.5, 0.2 if options.quick else WARM_UP)
    if options.smoke:
        options.key, options.system = ["A", "P", "RR1", "A_packed"], [OWN]
    names = [name for name in chosen if not options.key or name in options.key]
    wanted = options.system or (QUICK if options.quick else SYSTEMS)
    others = [name for name in SYSTEMS if name in wanted and name not in (OWN, "external")]
    sides: dict[str, dict[str, Side]] = {}
    with Lab() as lab:
        for number in range(options.rounds or (1 if options.quick else 5)):
            for name in names:
                say(f"round {number + 1}: {name}, {chosen[name].travel}")
                key = chosen[name]
                turns = [OWN, *([AWAKE] if name in WAITING else []), *others]
                set_up = {system: key.on(system) for system in turns}
                play_round(lab, key.point, set_up, number, sides.setdefault(name, {}))
    finish(**_results(names, chosen, sides))


def _results(names: list[str], chosen: dict[str, Key], sides: dict[str, dict[str, Side]]) -> dict[str, object]:
    ratios: dict[str, object] = {}
    for name in names:
        own = sides[name][AWAKE if name in WAITING else OWN]
        other = best(sides[name], (OWN, AWAKE))
        if other is None or own.why:
            ratios[name] = {"why": own.why or "no other system could be measured", "travel": chosen[name].travel}
            continue
        rates_of_other = sides[name][other].rates
        over = {"over": other, "travel": chosen[name].travel}
        ratios[name] = {**ratio(own.rates, rates_of_other), **over}
        asleep = sides[name][OWN]
        if name in WAITING and asleep.rates and not asleep.why:
            ratios[f"{name}_asleep"] = {**ratio(asleep.rates, rates_of_other), **over}
    rates = {
        name: {
            "travel": chosen[name].travel, "in_flight": _in_flight(chosen[name].point),
            **{system: side.shown for system, side in sides[name].items()},
        }
        for name in names
    }  # fmt: skip
    return {**ratios, "rates": rates}


def _in_flight(point: Point) -> str:
    if point.pattern == "request-reply":
        return f"{point.requesters} requests"
    if point.send == "free":
        return "as many as the system takes"
    return f"{point.transaction or point.batch} a producer"


if __name__ == "__main__":
    main()
