"""The options that several commands share: the same words everywhere."""

from pathlib import Path
from typing import Annotated

import typer

RunsOption = Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="The folder for run folders.")]
AgentsOption = Annotated[int, typer.Option(min=1, max=64, help="Agent processes, which run the roles.")]
OnlyOption = Annotated[list[str] | None, typer.Option(help="A scenario; may be repeated.")]
IgnoreNoiseOption = Annotated[
    bool,
    typer.Option(
        "--ignore-noise", envvar="MQLAB_IGNORE_NOISE",
        help="Do not watch other work on the machine, and repeat no run that is disturbed or not steady.",
    ),
]  # fmt: skip
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
