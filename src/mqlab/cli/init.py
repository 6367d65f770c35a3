"""`mqlab init`: write a commented example of a study, or a study with the load of a trace."""

import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.terminal.console import Exit, fail, say


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("study.yaml"),
    from_trace: Annotated[
        list[Path] | None,
        typer.Option(metavar="TRACE", help="Write the load of this file of mqlab broker trace; may be repeated."),
    ] = None,
) -> None:
    """Write an example study with an explanation of every line. An existing file is not overwritten."""
    example = {file: (files("mqlab.study") / "example.yaml").read_text()}
    texts = _replay(file, from_trace) if from_trace else example
    for path, text in texts.items():
        _write(path, text)
    say(f"{file} is written. To see what it runs: mqlab plan {file}. To run it: mqlab run {file}")
    if (reference := _reference()) is not None:
        say(f"The reference of all keys: {reference}")


def _replay(file: Path, traces: list[Path]) -> dict[Path, str]:
    """The files of a study with the load of the traces. Ends the command on an error."""
    # pyarrow takes longer to import than the rest of the command takes.
    from mqlab.study.load.replay import UnusableTraceError, read_trace, replay_study

    study_id = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")[:50] or "replay"
    try:
        study = replay_study(read_trace(traces), study_id)
    except UnusableTraceError as error:
        fail(str(error), Exit.USAGE)
    return {**{file.parent / name: text for name, text in study.files.items()}, file: study.text}


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x") as output:
            output.write(text)
    except FileExistsError:
        fail(f"{path} already exists", Exit.USAGE)
    except OSError as error:
        fail(f"{path}: {error.strerror}", Exit.USAGE)


def _reference() -> Path | None:
    """Return the installed documentation of the study language, or the one beside the source, or None."""
    source = Path(str(files("mqlab"))).parents[1] / "docs" / "studies.md"
    places = (Path(sys.prefix) / "share" / "doc" / "mqlab" / "studies.md", source)
    return next((place for place in places if place.is_file()), None)
