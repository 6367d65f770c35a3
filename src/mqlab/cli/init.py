"""`mqlab init`: write a commented example of a study."""

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.terminal.console import Exit, fail, say


def init(file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("study.yaml")) -> None:
    """Write an example study with an explanation of every line. An existing file is not overwritten."""
    try:
        with file.open("x") as output:
            output.write((files("mqlab.study") / "example.yaml").read_text())
    except FileExistsError:
        fail(f"{file} already exists", Exit.USAGE)
    except OSError as error:
        fail(f"{file}: {error.strerror}", Exit.USAGE)
    say(f"{file} is written. To see what it runs: mqlab plan {file}. To run it: mqlab run {file}")
    if (reference := _reference()) is not None:
        say(f"The reference of all keys: {reference}")


def _reference() -> Path | None:
    """Return the installed documentation of the study language, or the one beside the source, or None."""
    source = Path(str(files("mqlab"))).parents[1] / "docs" / "studies.md"
    places = (Path(sys.prefix) / "share" / "doc" / "mqlab" / "studies.md", source)
    return next((place for place in places if place.is_file()), None)
