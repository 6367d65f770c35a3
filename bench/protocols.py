"""The embedded broker beside the other brokers of a protocol, driven by the same client, in the same rounds.

amqp10_A, mqtt_A, stomp_A: scenario A of jms-four-brokers: one producer, one consumer, a topic, 12 bytes, not
persistent (MQTT: QoS 0).
amqp10_G, mqtt_G, stomp_G: scenario G: forty producers and consumers, 1 KiB, persistent (MQTT: QoS 1), each send
confirmed, which every system does after a sync; a system that cannot is left out. MQTT 3.1.1, which all brokers speak,
has no queues: there G has forty topics, and sessions that are kept.
mqtt_G_in_memory: G with sessions that end with their connections, so that no system must store a message. Mosquitto,
which never syncs, takes part.
Each key is the embedded broker's rate over that of the best of Artemis, RabbitMQ, Mosquitto and Broker-J that speak the
protocol and are installed, which stands beside it. The client is the lab's driver of the protocol, message by message:
each message is numbered, checked and recorded.
"""

from dataclasses import dataclass

from _common import arguments, finish, ratio, say
from _lab import Lab, scenario
from _systems_in_turn import Side, best, play_round
from mqlab.study import Point
from mqlab.systems import SYSTEMS

OWN = "embedded"
# The driver of each protocol. RabbitMQ 3.10 does not speak MQTT 5.
DRIVERS = {"amqp10": "amqp10", "mqtt": "mqtt3", "stomp": "stomp"}
OTHERS = ("artemis", "rabbitmq", "mosquitto", "qpid")
# Of a quick look: those that start within seconds.
QUICK = ("rabbitmq", "mosquitto")
WARM_UP = 1.0


@dataclass(frozen=True)
class Key:
    protocol: str
    point: Point
    synced: bool = True

    def systems(self, names: list[str]) -> dict[str, str]:
        """Those that speak the protocol, each set up for it."""
        driver = DRIVERS[self.protocol]
        return {name: f"{name}:driver={driver}" for name in names if driver in SYSTEMS[name].drivers}


def keys(measure: float, warmup: float) -> dict[str, Key]:
    found = {}
    for protocol in DRIVERS:
        for letter in "AG":
            point = scenario(letter, measure=measure, warmup=warmup)
            if (protocol, letter) == ("mqtt", "G"):
                # The point of queues with the same load on topics.
                point = point.model_copy(update={"domain": "topic"})
                found["mqtt_G_in_memory"] = Key(protocol, point, synced=False)
                point = point.model_copy(update={"durable": True})
            found[f"{protocol}_{letter}"] = Key(protocol, point)
    return found


def main() -> None:
    options = arguments(
        __doc__ or "", f"one short round, beside {' and '.join(QUICK)} alone",
        system="only beside this one", key="only this one",
    )  # fmt: skip
    chosen = keys(0.05, 0.05) if options.smoke else keys(0.3, 0.2) if options.quick else keys(1.5, WARM_UP)
    if options.key:
        chosen = {name: key for name, key in chosen.items() if name in options.key}
    others = [name for name in OTHERS if name in (options.system or (QUICK if options.quick else OTHERS))]
    names = [OWN, *([] if options.smoke else others)]
    sides: dict[str, dict[str, Side]] = {name: {} for name in chosen}
    with Lab() as lab:
        if not options.quick:
            # Java compiles while it runs: nobody's first turn counts.
            say("not counted:")
            _round(lab, chosen, names, 0, sides)
            for side in (side for of_key in sides.values() for side in of_key.values()):
                side.rates.clear()
        for number in range(options.rounds or (1 if options.quick else 5)):
            say(f"round {number + 1}:")
            _round(lab, chosen, names, number, sides)
    finish(**{name: _result(key, sides[name]) for name, key in chosen.items()}, rates=_rates(chosen, sides))


def _round(lab: Lab, chosen: dict[str, Key], names: list[str], number: int, sides: dict[str, dict[str, Side]]) -> None:
    for name, key in chosen.items():
        say(name)
        play_round(lab, key.point, key.systems(names), number, sides[name], synced=key.synced)


def _result(key: Key, sides: dict[str, Side]) -> dict[str, object]:
    other, own = best(sides, (OWN,)), sides[OWN]
    if other is None or own.why:
        return {"why": own.why or "no other system could be measured"}
    return {**ratio(own.rates, sides[other].rates), "over": other, "driver": DRIVERS[key.protocol]}


def _rates(chosen: dict[str, Key], sides: dict[str, dict[str, Side]]) -> dict[str, object]:
    return {name: {system: side.shown for system, side in sides[name].items()} for name in chosen}


if __name__ == "__main__":
    main()
