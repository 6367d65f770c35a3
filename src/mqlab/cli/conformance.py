"""`mqlab conformance`: test every feature of a system and its driver."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.text import Text

from mqlab.cli.options import JsonOption
from mqlab.cli.systems.names import parse_or_fail
from mqlab.cli.terminal.completion import complete_system
from mqlab.cli.terminal.console import Exit, fail, say, show, show_json, table_of
from mqlab.runner.checks.conformance import FeatureResult, check_conformance
from mqlab.systems import SystemFailedError

_STYLES = {"works": "green", "lacks": "yellow", "fails": "bold red"}


def conformance(
    name: Annotated[
        str, typer.Argument(metavar="SYSTEM", help="NAME or NAME:setting=value,...", autocompletion=complete_system)
    ],
    as_json: JsonOption = False,
) -> None:
    """Start a system and test every feature: works, lacks (with the reason) or fails (with the observation)."""
    chosen = parse_or_fail(name)
    with tempfile.TemporaryDirectory(prefix="mqlab-conformance-") as folder:
        try:
            results = uvloop.run(check_conformance(chosen, Path(folder) / "system", _report_progress))
        except SystemFailedError as error:
            fail(str(error), Exit.SYSTEM_UNAVAILABLE)
    if as_json:
        show_json({"system": chosen.describe(), "features": [asdict(result) for result in results]})
    else:
        rows = ((one.feature, Text(one.result, style=_STYLES[one.result]), one.why) for one in results)
        show(table_of(("feature", "result", "why"), rows))
    failed = [result.feature for result in results if result.result == "fails"]
    if failed:
        fail(f"{chosen.label} does not conform: {', '.join(failed)}", Exit.AUDIT_FAILED)


def _report_progress(result: FeatureResult) -> None:
    say(f"{result.feature}: {result.result}")
