"""Options of the JMS driver: presets for known providers, and checks for all others."""

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mqlab.drivers.api import DriverError, parse_destination
from mqlab.wire.address import Address, BadAddressError

# {host} and {port} come from the address. In names of destinations {name} is the lab's name, {identifier} that name in
# letters, digits and underscores, {number} its trailing number, for destinations that an administrator creates.
_QPID_JMS: Final[Mapping[str, str]] = MappingProxyType({
    "factory": "org.apache.qpid.jms.JmsConnectionFactory",
    "url": "amqp://{host}:{port}?jms.receiveNoWaitLocalOnly=true",
    "confirm": "listener",
})  # fmt: skip
_PRESETS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({
    "artemis": {
        "factory": "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory",
        "url": "tcp://{host}:{port}",
        # Its completion listeners need a confirmation window, which makes every message slower.
        "confirm": "commit",
    },
    "activemq": {
        "factory": "org.apache.activemq.ActiveMQConnectionFactory",
        "url": "tcp://{host}:{port}",
        # It has no completion listeners, and does not confirm non-persistent messages.
        "confirm": "commit",
    },
    "openmq": {
        "factory": "com.sun.messaging.ConnectionFactory",
        "url": "",
        "set.imqAddressList": "mq://{host}:{port}/jms",
        "set.imqReconnectEnabled": "false",
        "confirm": "listener",
        "queue": "{identifier}",
        "topic": "{identifier}",
    },
    "hornetq": {
        "factory": "org.hornetq.jms.client.HornetQJMSConnectionFactory",
        # It confirms asynchronous sends only now and then.
        "confirm": "commit",
    },
    # Broker-J.
    "qpid": {
        **_QPID_JMS,
        # A plain name would become a queue.
        "topic": "amq.topic/{name}",
    },
    # Any other broker that speaks AMQP 1.0.
    "qpid-jms": _QPID_JMS,
    "ibmmq": {
        "factory": "com.ibm.mq.jms.MQConnectionFactory",
        "url": "",
        "set.hostName": "{host}",
        "set.port": "{port}",
        # Client mode over TCP.
        "set.transportType": "1",
        "queue": "MQLAB.{number}",
        "topic": "{name}",
    },
    "swiftmq": {
        "jndi.java.naming.factory.initial": "com.swiftmq.jndi.InitialContextFactoryImpl",
        "jndi.java.naming.provider.url": "smqp://{host}:{port}/timeout=10000",
        "lookup": "ConnectionFactory",
        "queue": "mqlab{number}@router1",
        "topic": "mqlab{number}",
        "destinations": "jndi",
    },
})  # fmt: skip
_DEFAULTS: Final = {"queue": "{name}", "topic": "{name}", "confirm": "send", "replies": "standing"}
_CHOICES: Final = {
    "confirm": ("send", "listener", "commit"),
    "replies": ("standing", "each"),
    "destinations": ("created", "jndi"),
}
_NAMES: Final = (
    "provider", "jars", "factory", "url", "lookup", "user", "password", "queue", "topic", *_CHOICES,
)  # fmt: skip
_PREFIXES: Final = ("set.", "jndi.")


def complete(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return all options, with the provider's presets for those not given. Raise DriverError."""
    for name in options:
        if name not in _NAMES and not name.startswith(_PREFIXES):
            known = ", ".join((*_NAMES, *(f"{prefix}NAME" for prefix in _PREFIXES)))
            raise DriverError(f"the jms driver has no option {name!r}; it has: {known}")
    provider = options.get("provider", "")
    if provider and provider not in _PRESETS:
        raise DriverError(f"the jms driver: provider: {provider!r} is none of {', '.join(_PRESETS)}")
    place = _place(address)
    chosen = {**_DEFAULTS, **_PRESETS.get(provider, {}), **options}
    for name, allowed in _CHOICES.items():
        if name in chosen and chosen[name] not in allowed:
            raise DriverError(f"the jms driver: {name}: {chosen[name]!r} is none of {', '.join(allowed)}")
    if "factory" not in chosen and "lookup" not in chosen:
        raise DriverError(
            "the jms driver needs the option provider, or factory (the class of the connection factory), or lookup "
            "(its name in JNDI)"
        )
    if not chosen.get("jars"):
        raise DriverError("the jms driver needs the option jars: a folder, files or patterns of the provider's library")
    placed = {name for name in chosen if name in ("url", "lookup") or name.startswith(_PREFIXES)}
    settled = {name: _filled(value, place) if name in placed else value for name, value in chosen.items()}
    return {**place, **settled, "url": settled.get("url", _filled("tcp://{host}:{port}", place))}


def jars(option: str) -> tuple[Path, ...]:
    """Return the files of a class path of folders, files and patterns. Raise DriverError."""
    paths: list[Path] = []
    for part in filter(None, option.split(os.pathsep)):
        pattern = os.path.join(part, "*.jar") if os.path.isdir(part) else part
        files = sorted(glob.glob(os.path.expanduser(pattern)))
        if not files:
            raise DriverError(f"the jms driver: jars: there is no {pattern}")
        paths.extend(Path(file).absolute() for file in files)
    return tuple(dict.fromkeys(paths))


def destination(name: str, options: Mapping[str, str]) -> tuple[bool, str]:
    """Return whether the destination is a topic, and its name at the provider. Raise DriverError."""
    domain, own = parse_destination(name)
    number = re.search(r"\d*$", own)
    words = {"name": own, "identifier": re.sub(r"\W", "_", own), "number": number.group() if number else ""}
    return domain == "topic", _filled(options[domain], words)


def _place(address: str) -> dict[str, str]:
    try:
        parsed = Address.parse(address)
    except BadAddressError as error:
        raise DriverError(str(error)) from error
    if parsed.tls or not parsed.host:
        raise DriverError(f"the jms driver: {address}: write tcp:HOST:PORT; the option url configures TLS")
    return {"host": parsed.host, "port": str(parsed.port)}


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text
