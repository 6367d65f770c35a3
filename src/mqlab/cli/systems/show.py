"""`mqlab systems show`: what one can do, what its word is worth, and what can be chosen of it."""

from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from mqlab.cli.console import Exit, fail, show, show_json
from mqlab.cli.systems.names import AsJson, Named, named, not_ready
from mqlab.runner.unsupported import lacks
from mqlab.study.features import FEATURES
from mqlab.systems import System, SystemFailedError
from mqlab.systems.program import Program


def show_one(name: Named, as_json: AsJson = False) -> None:
    """Show one system: each feature, or why it lacks it; its durability; its settings."""
    one = named(name)
    try:
        found = _described(one)
    except SystemFailedError as error:
        fail(str(error), Exit.SYSTEM_UNAVAILABLE)
    if as_json:
        show_json(found)
        return
    head = Table(box=None, show_header=False)
    for key in ("name", "title", "version", "driver", "ready", "stamps"):
        value = found[key] if key != "ready" else found["missing"] or "yes"
        head.add_row(Text(key), Text("; ".join(value) if isinstance(value, list) else value))
    show(head)
    show(_table(("feature", "has it"), {key: why or "yes" for key, why in found["features"].items()}))
    show(_table(("durability", ""), found["durability"]))
    show(_settings(found))


def _described(one: System) -> dict[str, Any]:
    reasons = lacks(one)
    choices: dict[str, tuple[str, ...]] = {"driver": one.drivers}
    if isinstance(one, Program):
        choices |= one.choices
    return {
        **one.describe(), "title": one.title, "driver": one.driver, "missing": not_ready(one),
        # Why it has not; "" for what it has.
        "features": {feature: reasons.get(feature, "") for feature in FEATURES},
        "durability": asdict(one.durability()),
        "choices": {key: list(values) for key, values in choices.items()},
    }  # fmt: skip


def _settings(found: dict[str, Any]) -> Table:
    table = Table("setting", "value", "choices", box=None)
    for key, value in found["settings"].items():
        allowed = ", ".join(found["choices"].get(key, ()))
        table.add_row(Text(key), Text("" if value is None else str(value)), Text(allowed))
    return table


def _table(head: tuple[str, str], rows: dict[str, str]) -> Table:
    table = Table(*head, box=None)
    for key, value in rows.items():
        table.add_row(Text(key), Text(value))
    return table
