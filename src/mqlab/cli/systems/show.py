"""`mqlab systems show`: the features, durability and settings of a system."""

from collections.abc import Iterator
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from mqlab.cli.systems.names import AsJson, SystemArgument, not_ready, parse_or_fail
from mqlab.cli.terminal.console import Exit, fail, show, show_json, table_of
from mqlab.json_values import JsonObject
from mqlab.runner.capability import unsupported_features
from mqlab.study.features import FEATURES
from mqlab.systems import System, SystemFailedError
from mqlab.systems.program import Program


def show_one(name: SystemArgument, as_json: AsJson = False) -> None:
    """Show the features of a system, why it lacks others, its durability and its settings."""
    system = parse_or_fail(name)
    try:
        description = _describe(system)
    except SystemFailedError as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)
    if as_json:
        show_json(description)
        return
    head = Table(box=None, show_header=False)
    for key in ("name", "title", "version", "driver", "ready", "stamps"):
        value = description[key] if key != "ready" else description["missing"] or "yes"
        head.add_row(Text(key), Text("; ".join(value) if isinstance(value, list) else value))
    show(head)
    show(table_of(("feature", "has it"), ((key, why or "yes") for key, why in description["features"].items())))
    show(table_of(("durability", ""), description["durability"].items()))
    show(table_of(("setting", "value", "choices"), _settings(description)))


def _describe(system: System) -> JsonObject:
    reasons = unsupported_features(system)
    choices: dict[str, tuple[str, ...]] = {"driver": system.drivers}
    if isinstance(system, Program):
        choices |= system.choices
    return {
        **system.describe(), "title": system.title, "driver": system.driver, "missing": not_ready(system),
        # The reason why it lacks the feature; "" if it has it.
        "features": {feature: reasons.get(feature, "") for feature in FEATURES},
        "durability": asdict(system.durability()),
        "choices": {key: list(values) for key, values in choices.items()},
    }  # fmt: skip


def _settings(description: JsonObject) -> Iterator[tuple[str, str, str]]:
    for key, value in description["settings"].items():
        yield key, "" if value is None else str(value), ", ".join(description["choices"].get(key, ()))
