"""The plain API beside what a Python user would take instead: one producer, one consumer, message by message.

Each client runs with its usual system, both started here, in the same rounds: mqlab (blocking) and mqlab.aio with the
embedded broker, nats-py, redis-py, pika with RabbitMQ, paho-mqtt with Mosquitto, stomp.py with Artemis, and
confluent-kafka. Nothing is persistent, except in Kafka. A rate is that of the consumer, from the first message to the
last.
over_best_12, over_best_1024: the rate of mqlab over that of the best other client, for messages of 12 bytes and 1 KiB;
aio_over_best_12 ...: that of mqlab.aio.
cpu_15, cpu_200: messages a second of processor time, of the clients and the broker, with so many producers and as many
consumers, over that with one of each. The processor time of a message should not grow: 1.
"""

import subprocess
import sys
from functools import partial
from itertools import count
from statistics import median

import psutil

from _common import HERE, arguments, finish, interleaved, medians, ratio, say
from _lab import Lab
from mqlab.systems import system

OWN, OWN_AIO = "mqlab", "mqlab.aio"
SYSTEMS = {
    OWN: "embedded", OWN_AIO: "embedded", "nats-py": "nats", "redis-py": "redis", "pika": "rabbitmq:driver=amqp",
    "paho-mqtt": "mosquitto", "stomp.py": "artemis:driver=stomp", "confluent-kafka": "kafka",
}  # fmt: skip
QUICK = (OWN, OWN_AIO, "nats-py", "redis-py")
SIZES = (12, 1024)
PAIRS = (1, 15, 200)
# Messages of a first, short turn of each client, which tells how many it sends in the time of a real one.
PROBE = 4000

_names = count(1)


def main() -> None:
    options = arguments(
        __doc__ or "", f"short, and only {', '.join(QUICK)}", client="only beside this one", size="only this one"
    )
    seconds, rounds = (0.5, 2) if options.quick else (2.0, 5)
    wanted = (OWN, OWN_AIO, *options.client) if options.client else QUICK if options.quick else SYSTEMS
    if options.smoke:
        wanted, seconds = (OWN, OWN_AIO), 0.05
    results: dict[str, object] = {}
    rates: dict[str, object] = {}
    with Lab(agents=0) as lab:
        clients = [client for client in wanted if not _is_missing(client, rates)]
        for size in [int(size) for size in options.size or SIZES]:
            found = _rates(lab, clients, size, seconds, options.rounds or rounds)
            rates[str(size)] = medians(found)
            others = {client: values for client, values in found.items() if client not in (OWN, OWN_AIO)}
            if others:
                best = max(others, key=lambda client: median(others[client]))
                for prefix, own in (("", OWN), ("aio_", OWN_AIO)):
                    results[f"{prefix}over_best_{size}"] = {**ratio(found[own], others[best]), "over": best}
        messages = 2000 if options.smoke else 40_000 if options.quick else 200_000
        sides = {str(pairs): partial(_per_cpu_second, lab, pairs, messages) for pairs in PAIRS}
        costs = interleaved(sides, options.rounds or rounds)
    for pairs in PAIRS[1:]:
        results[f"cpu_{pairs}"] = ratio(costs[str(pairs)], costs["1"])
    finish(**results, messages_per_second=rates, messages_per_cpu_second=medians(costs))


def _is_missing(client: str, rates: dict[str, object]) -> bool:
    why = system(SYSTEMS[client]).missing()
    if why:
        say(why)
        rates[client] = why
    return bool(why)


def _rates(lab: Lab, clients: list[str], size: int, seconds: float, rounds: int) -> dict[str, list[float]]:
    sides = {}
    for client in clients:
        say(f"{client}, {size} bytes")
        number = max(PROBE, round(seconds * _rate(lab, client, size, PROBE)))
        sides[client] = partial(_rate, lab, client, size, number)
    return interleaved(sides, rounds)


def _rate(lab: Lab, client: str, size: int, number: int) -> float:
    """Messages a second at the consumer; all must arrive."""
    address, name = lab.running(SYSTEMS[client]).address, f"plain{next(_names)}"
    with _side(client, "consume", address, name, size, number) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == "ready\n", f"{client}: no consumer"
        with _side(client, "produce", address, name, size, number) as producer:
            received, elapsed = consumer.stdout.readline().split()
        if producer.returncode:
            raise SystemExit(f"{client}: the producer failed")
    if int(received) != number:
        raise SystemExit(f"{client}: {number - int(received)} of {number} messages were lost")
    return number / float(elapsed)


def _per_cpu_second(lab: Lab, pairs: int, number: int) -> float:
    running = lab.running()
    broker = psutil.Process(running.pid)
    with _side(str(pairs), "pairs", running.address, f"pairs{next(_names)}", SIZES[0], number) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = broker.cpu_times()
        process.stdin.write("go\n")
        process.stdin.flush()
        received, client_seconds = process.stdout.readline().split()
        after = broker.cpu_times()
    spent = float(client_seconds) + after.user + after.system - before.user - before.system
    return int(received) / spent


def _side(client: str, role: str, address: str, name: str, size: int, number: int) -> "subprocess.Popen[str]":
    script = str(HERE / "bench" / "_plain_clients.py")
    command = [sys.executable, script, client, role, address, name, str(size), str(number)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
