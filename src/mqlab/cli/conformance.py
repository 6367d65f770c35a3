"""`mqlab conformance`: what works of a system and its driver, for its author and its users."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.table import Table
from rich.text import Text

from mqlab.cli.console import Exit, fail, say, show, show_json
from mqlab.cli.systems.names import named
from mqlab.runner.checks.conformance import FeatureResult, conforms
from mqlab.systems import SystemFailedError

_TONES = {"works": "green", "lacks": "yellow", "fails": "bold red"}


def conformance(
    name: Annotated[str, typer.Argument(metavar="SYSTEM", help="NAME or NAME:setting=value,...")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Start a system and try every feature on it: works, lacks (with the reason) or fails (with what was seen)."""
    chosen = named(name)
    with tempfile.TemporaryDirectory(prefix="mqlab-conformance-") as folder:
        try:
            found = uvloop.run(conforms(chosen, Path(folder) / "system", _tell))
        except SystemFailedError as error:
            fail(str(error), Exit.SYSTEM_UNAVAILABLE)
    if as_json:
        show_json({"system": chosen.describe(), "features": [asdict(one) for one in found]})
    else:
        table = Table("feature", "result", "why", box=None)
        for one in found:
            table.add_row(Text(one.feature), Text(one.result, style=_TONES[one.result]), Text(one.why))
        show(table)
    failed = [one.feature for one in found if one.result == "fails"]
    if failed:
        fail(f"{chosen.label} does not conform: {', '.join(failed)}", Exit.AUDIT_FAILED)


def _tell(found: FeatureResult) -> None:
    say(f"{found.feature}: {found.result}")
