"""Processor time a message: this work tree against another one, measured in turns.

OLD is the folder of another checkout, for example one in which a shortcut is removed. Each key is the number of
messages a second of processor time in this tree over that in the other one. The share of the other processes of the
machine hardly changes it, so it shows a few percent also where rates vary by much more. Broker and clients share one
process here: what a shortcut saves of that is at least what it earns of the rate.

RR1, RR8: round trips of 1 KiB with 1 and 8 requesters, by the lab's driver. requests, bindings: round trips by the
client library, over TCP and over bindings. headers: single messages with headers, sent without waiting. plain: small
messages without headers by the plain API; plain_64: the same, and the producer yields to the event loop after each 64;
blocking: the same by the blocking API, with a thread for either side. P, G:
persistent messages of 1 KiB by 1 and 20 producers, each confirmed before the next one. A, D: batches of 1,024 small and
of 16 large messages. amqp10_A, amqp10_G, stomp_A, stomp_G: the loads of `protocols.py` by the lab's driver of the
protocol; amqp10 includes the time of Proton.
"""

from contextlib import ExitStack
from functools import partial

from _common import HERE, arguments, finish, interleaved, medians, ratio
from before_after import Tree

# How many messages, or batches, a turn has.
NUMBERS = {
    "RR1": 1500, "RR8": 2000, "requests": 1500, "bindings": 3000, "headers": 4500, "plain": 100_000,
    "plain_64": 50_000, "blocking": 50_000, "P": 1000,
    "G": 4000, "A": 1500, "D": 400, "amqp10_A": 40_000, "amqp10_G": 4000, "stomp_A": 1_000_000, "stomp_G": 4000,
}  # fmt: skip


def main() -> None:
    options = arguments(__doc__ or "", "three short rounds", other_tree=True, key="only this one")
    keys, share = options.key or [*NUMBERS], 10 if options.quick else 1
    rounds = options.rounds or (3 if options.quick else 12)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        trees = {"old": Tree(stack, options.old.resolve(), "_cpu_tree.py"), "new": Tree(stack, HERE, "_cpu_tree.py")}
        for key in keys:
            line = f"{key} {NUMBERS[key] // share}"
            found |= interleaved({f"{key} {name}": partial(tree.rate, line) for name, tree in trees.items()}, rounds)
    finish(
        **{key: ratio(found[f"{key} new"], found[f"{key} old"]) for key in keys},
        messages_per_cpu_second=medians(found),
    )


if __name__ == "__main__":
    main()
