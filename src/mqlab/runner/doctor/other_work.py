"""Checks of the other work of the machine: processes, virtual machines on the host, and other brokers."""

import os
from collections.abc import Iterable, Iterator
from typing import Final

import psutil

from mqlab.events.schema import MachineRow
from mqlab.runner.doctor.machine_finding import MachineFinding, Weight
from mqlab.runner.noise import MAX_TAKEN_SHARE

# Below this share, other work is part of the scatter of any runs.
_LITTLE_SHARE: Final = 0.03
# A load average above this share of the processors leaves too little for the lab.
_BUSY_SHARE: Final = 0.5
# Words in the command line of a broker, with the name to show.
_BROKERS: Final = {
    "beam.smp": "RabbitMQ", "activemq.jar": "ActiveMQ", "org.apache.activemq.artemis": "Artemis",
    "kafka.Kafka": "Kafka", "nats-server": "NATS", "redis-server": "Redis", "mosquitto": "Mosquitto", "qpidd": "Qpid",
    "imqbroker": "Open MQ", "hornetq": "HornetQ", "pulsar": "Pulsar", "mqlab broker run": "mqlab broker",
}  # fmt: skip
_CURE: Final = "end other programs, or measure when they have ended"


def load_check() -> MachineFinding:
    """Without a delay: by the load average of the last minute, which may contain earlier work of the lab."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    measured = f"a load of {load:.1f} on {cores} processors"
    if load <= _BUSY_SHARE * cores:
        return MachineFinding("other work", "fine", measured)
    return MachineFinding("other work", "some", measured, "disturbed runs are flagged and repeated", _CURE)


def noise_checks(machine: MachineRow) -> Iterator[MachineFinding]:
    """The share that other work took while the machine was watched, and the lab ran nothing."""
    processor_seconds = machine.seconds * machine.cores
    foreign = (machine.foreign_seconds or 0.0) / processor_seconds
    name = f", most by {machine.foreign_name}" if machine.foreign_name and foreign >= _LITTLE_SHARE else ""
    yield _taken("other processes", foreign, f"{foreign:.1%} of the processors{name}", _CURE)
    steal = machine.steal_seconds / processor_seconds
    cure = "use a machine of your own, or one with processors that it does not share"
    yield _taken("other virtual machines", steal, f"{steal:.1%} of the processors", cure)


def _taken(check: str, share: float, measured: str, cure: str) -> MachineFinding:
    if share <= _LITTLE_SHARE:
        return MachineFinding(check, "fine", measured)
    weight: Weight = "some" if share <= MAX_TAKEN_SHARE else "much"
    return MachineFinding(check, weight, measured, "rates fall by about this share, and scatter", cure)


def broker_check(processes: Iterable[psutil.Process] | None = None) -> MachineFinding:
    found: dict[str, int] = {}
    for process in psutil.process_iter() if processes is None else processes:
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue  # it has ended, or is another user's
        name = next((name for word, name in _BROKERS.items() if word in command), None)
        if name is not None:
            found.setdefault(name, process.pid)
    if not found:
        return MachineFinding("other brokers", "fine", "none")
    measured = ", ".join(f"{name} (process {pid})" for name, pid in found.items())
    effect = "it takes memory and processors, and may hold the port of a system"
    return MachineFinding("other brokers", "some", measured, effect, "stop it; mqlab systems stop ends one of the lab")
