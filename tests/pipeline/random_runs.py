"""Random runs with ranges that lie over each other in every way; the same on every machine."""

import random
from itertools import pairwise

from mqlab.events.schema import CONFIRMED, FAILED, ROLLED_BACK, UNKNOWN
from pipeline.cases import BLOCK
from pipeline.synthetic_runs import BEGIN, END, SECOND, Run

SEED = 20_26
# Far above the runs made by hand, whose folder they share.
FIRST_NUMBER = 1_000


def random_runs(count: int = 160) -> list[Run]:
    chance = random.Random(SEED)
    runs = [_random_run(FIRST_NUMBER + number, chance) for number in range(count)]
    return runs + [_random_asking(FIRST_NUMBER + count + number, chance) for number in range(count // 4)]


def _random_run(number: int, chance: random.Random) -> Run:
    """Half of the runs are as they should be, but for marked copies; the others have everything wrong."""
    topic, consumers = chance.random() < 0.5, chance.randint(1, 3)
    run = Run(
        number,
        # A point of its own: few of these runs are steady, and all of them must be used.
        scenario=f"S{number % 7}",
        point=f"number={number}",
        consumers=tuple(range(consumers)) if topic else (0,) * consumers,
        producers=chance.randint(1, 3),
        destinations=chance.randint(1, 2),
        offsets={1: chance.randint(-SECOND, SECOND), 2: chance.randint(-SECOND, SECOND)},
        # Messages arrive at any time: only with a large error of the clocks they are not earlier than they may be.
        clock_error=END - BEGIN if number % 6 else 0,
    )
    orderly = number % 2 == 0
    for producer in range(run.producers):
        for destination in range(run.destinations):
            base = chance.choice((0, BLOCK - 9, 5 * BLOCK - 20))
            length = chance.randint(5, 60)
            if base:
                before = BEGIN - run.offsets[1]
                run.send(0, base, before, FAILED, producer=producer, destination=destination)
            for first, count in _pieces(base, length, chance):
                outcome = CONFIRMED if orderly else chance.choices(
                    (CONFIRMED, UNKNOWN, FAILED, ROLLED_BACK), (8, 2, 1, 1)
                )[0]  # fmt: skip
                if not orderly and chance.random() < 0.02:
                    continue  # a gap
                planned = chance.randint(BEGIN, END) - run.offsets[1]
                run.send(first, count, planned, outcome, producer=producer, destination=destination)
                if chance.random() < 0.2:
                    run.send(first, count, planned + 77, UNKNOWN, producer=producer, destination=destination)
            _deliver(run, producer, destination, base, length, orderly, chance)
    return run


def _random_asking(number: int, chance: random.Random) -> Run:
    """Round trips of several requesters; in every third run some request or reply is lost."""
    requesters, responders = chance.randint(1, 4), chance.randint(1, 2)
    offsets = {1: chance.randint(-SECOND, SECOND), 2: chance.randint(-SECOND, SECOND)}
    run = Run.asking(
        number, requesters, responders, scenario=f"R{number % 5}", point=f"number={number}", offsets=offsets
    )
    for requester in range(requesters):
        at = BEGIN - offsets[1]
        for seq in range(chance.randint(0, 40)):
            after = round(chance.lognormvariate(17, 1.5))
            lost = chance.choice(("request", "reply", "", "")) if number % 3 == 0 else ""
            run.ask(seq, at, after, requester, requesters + chance.randrange(responders), lost)
            at += after + chance.randint(0, SECOND // 10)
    return run


def _deliver(
    run: Run, producer: int, destination: int, base: int, length: int, orderly: bool, chance: random.Random
) -> None:
    for subscription in set(run.consumers):
        members = [number for number, at in enumerate(run.consumers) if at == subscription]
        pieces = list(_pieces(base, length, chance))
        if not orderly:
            pieces = [piece for piece in pieces if chance.random() < 0.95]
            pieces += [(base + chance.randint(0, length), chance.randint(1, 9)) for _ in range(chance.randint(0, 3))]
            if chance.random() < 0.5:
                chance.shuffle(pieces)
        for first, count in pieces:
            place = {"consumer": chance.choice(members), "producer": producer, "destination": destination}
            at = chance.randint(BEGIN, END + SECOND) - run.offsets[2]
            run.receive(first, count, at, not orderly and chance.random() < 0.15, **place)
            if chance.random() < 0.2:
                again = chance.randint(first, first + count - 1)
                run.receive(again, first + count - again, at + 99, redelivered=True, **place)


def _pieces(base: int, length: int, chance: random.Random) -> list[tuple[int, int]]:
    """A stretch of messages cut anywhere."""
    cuts = sorted({base, base + length, *(base + chance.randint(0, length) for _ in range(chance.randint(0, 12)))})
    return [(first, end - first) for first, end in pairwise(cuts)]
