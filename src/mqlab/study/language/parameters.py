"""The parameters of a point: their order in a sweep, their text form, and the defaults of the lab."""

from collections.abc import Callable
from typing import Any, Final

from mqlab.study.language.rates import RateProfile
from mqlab.study.language.units import format_percent, format_rate, format_size, format_time
from mqlab.study.language.value_types import Parameters
from mqlab.study.repetition import RepetitionRule

FULL: Final = "full"
DEFAULT_SCALE: Final = "quick"

# Any: each formatter takes the type that pydantic gives to its own parameter.
Formatter = Callable[[Any], str]
# The defaults of the lab. Destinations, roles and the message size have none: every study must declare them.
LAB_DEFAULTS: Final[Parameters] = {
    "pattern": "one-way",
    "message": {"persistent": False},
    "session": {"acknowledge": "auto", "transaction": 0},
    "selector": "",
    "durable": False,
    "prefetch": None,
    "load": "both",
    "messages": None,
    "preload": 0,
    "send": "free",
    "batch": 1,
    "rate": None,
    "think": 0.0,
    "consume_rate": None,
    "connections": "each",
    "topology": "client",
    "settings": {},
    "faults": "",
    "client_cpu": None,
    "switch": 0.0,
    "phases": {"warmup": 5.0, "measure": 30.0, "drain": 30.0},
    "repeat": {"until": RepetitionRule("interval", 0.03), "least": 2, "most": 5},
}
# The scales of a study that declares none. `full` adds nothing: it is the study's own length.
LAB_SCALES: Final[dict[str, Parameters]] = {
    "quick": {"phases": {"warmup": 0.3, "measure": 2.0}, "repeat": {"least": 2, "most": 3}},
    "standard": {
        "phases": {"warmup": 5.0, "measure": 30.0},
        "repeat": {"until": RepetitionRule("interval", 0.03), "least": 2, "most": 5},
    },
    FULL: {},
}


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _or(word: str, show: Formatter = str) -> Formatter:
    return lambda value: show(value) if value else word


# Every parameter that may be a list, in the order in which lists multiply (the last varies fastest), with the function
# that formats a value for the name of a point. "settings" is the place of the system's settings in this order.
PARAMETERS: Final[dict[str, Formatter]] = {
    "pattern": str,
    "topics": str,
    "queues": str,
    "shares": _or("none"),
    "producers": str,
    "consumers": str,
    "requesters": str,
    "responders": str,
    "clients": str,
    "threads": str,
    "message.size": lambda size: format_size(size) if isinstance(size, int) else size.text,
    "message.body": _or("filler", lambda body: body.text),
    "message.properties": _or("none", lambda values: " + ".join(f"{name} {value}" for name, value in values.items())),
    "message.priority": _or("none"),
    "message.expires": _or("none", format_time),
    "message.key": _or("none"),
    "message.seed": str,
    "message.persistent": _yes_no,
    "session.acknowledge": str,
    "session.transaction": _or("none"),
    "selector": _or("none"),
    "durable": _yes_no,
    "prefetch": _or("auto"),
    "load": str,
    "messages": _or("none"),
    "preload": str,
    "send": str,
    "batch": str,
    "rate": _or("max", lambda rate: str(rate) if isinstance(rate, RateProfile) else format_rate(rate)),
    "think": _or("none", format_time),
    "consume_rate": _or("max", format_rate),
    "connections": str,
    "topology": str,
    "settings": str,
    "faults": _or("none"),
    "client_cpu": _or("none", lambda percent: format_percent(percent / 100)),
    "phases.warmup": format_time,
    "phases.measure": format_time,
    "phases.drain": format_time,
}
SHORT_NAMES: Final = frozenset(name.rpartition(".")[2] for name in PARAMETERS)


def flatten(layered: Parameters) -> Parameters:
    """Return the parameters by full name (`message.size`, `settings.trace`), in the order in which lists multiply."""
    values: Parameters = {}
    for name in PARAMETERS:
        group, _, key = name.rpartition(".")
        if name == "settings":
            values |= {f"settings.{setting}": value for setting, value in layered.get("settings", {}).items()}
        elif key in (within := layered.get(group, {}) if group else layered):
            values[name] = within[key]
    return values


def short_name(name: str) -> str:
    """Return the last part of a full name. Exhibits, claims and names of points use it."""
    return name.partition(".")[2] if name.startswith("settings.") else name.rpartition(".")[2]


def format_value(name: str, value: object) -> str:
    return str(value) if name.startswith("settings.") else PARAMETERS[name](value)
