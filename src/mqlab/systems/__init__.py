"""The systems under test, one module or folder each: how the lab installs, starts, samples and stops them.

`mqlab.systems.api` is the contract; another package adds a system by an entry point of the group `mqlab.systems`.
How messages get to a system is the driver's part.
"""

from typing import Final

from mqlab.registry import Registry
from mqlab.systems.api import Durability, Hosted, Running, SwitchMoments, System, SystemFailedError, SystemSettingError
from mqlab.systems.secrets import mask_text

SYSTEMS: Final[Registry[System]] = Registry("mqlab.systems", {
    "activemq": "mqlab.systems.activemq:ActiveMQ",
    "artemis": "mqlab.systems.artemis:Artemis",
    "embedded": "mqlab.systems.embedded.system:Embedded",
    "external": "mqlab.systems.external:External",
    "hornetq": "mqlab.systems.hornetq:HornetQ",
    "kafka": "mqlab.systems.kafka:Kafka",
    "mosquitto": "mqlab.systems.mosquitto:Mosquitto",
    "nats": "mqlab.systems.nats:Nats",
    "openmq": "mqlab.systems.openmq:OpenMQ",
    "qpid": "mqlab.systems.qpid:Qpid",
    "rabbitmq": "mqlab.systems.rabbitmq:RabbitMQ",
    "redis": "mqlab.systems.redis:Redis",
})  # fmt: skip


def system(text: str) -> System:
    """The system that `NAME` or `NAME:setting=value,...` describes. Raises SystemSettingError."""
    name, _, rest = text.partition(":")
    if name not in SYSTEMS:
        raise SystemSettingError(f"there is no system {name!r}; there are: {', '.join(SYSTEMS)}")
    settings: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise SystemSettingError(f"{mask_text(text)!r}: write NAME:setting=value,setting=value")
        if key.strip() in settings:
            raise SystemSettingError(f"{mask_text(text)!r}: {key.strip()} is set twice")
        settings[key.strip()] = value.strip()
    return SYSTEMS[name](settings)


__all__ = [
    "SYSTEMS", "Durability", "Hosted", "Running", "SwitchMoments", "System", "SystemFailedError", "SystemSettingError",
    "system",
]  # fmt: skip
