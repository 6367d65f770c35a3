"""`mqlab init`: a commented study to begin with."""

import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.console import Exit, fail, say


def init(
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("study.yaml"),
) -> None:
    """Write an example of a study of your own, every line of it explained. Nothing is overwritten."""
    try:
        with file.open("x") as written:
            written.write((files("mqlab.study") / "example.yaml").read_text())
    except FileExistsError:
        fail(f"{file} is there already", Exit.USAGE)
    except OSError as error:
        fail(f"{file}: {error.strerror}", Exit.USAGE)
    say(f"{file} is written. What it would do: mqlab plan {file}. To do it: mqlab run {file}")
    if (reference := _reference()) is not None:
        say(f"Every key is explained in {reference}")


def _reference() -> Path | None:
    """The language of studies, as it was installed or as it lies beside the source."""
    source = Path(str(files("mqlab"))).parents[1] / "docs" / "studies.md"
    places = (Path(sys.prefix) / "share" / "doc" / "mqlab" / "studies.md", source)
    return next((place for place in places if place.is_file()), None)
