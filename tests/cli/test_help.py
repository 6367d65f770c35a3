"""No help text loses what stands in brackets: to the library that prints it, they are markup."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from mqlab.cli.app import app_with

ROOT = typer.main.get_command(app_with())


def commands(command: object = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


EVERY = dict(commands())


def in_one_line(text: str) -> str:
    """Without the frames and the wrapping of a page of help."""
    return re.sub(r"[\s\u2500-\u257f]+", "", text)


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_brackets_are_printed(path: tuple[str, ...]) -> None:
    command = EVERY[path]
    shown = CliRunner(env={"COLUMNS": "3000", "TERMINAL_WIDTH": "3000"}).invoke(app_with(), [*path, "--help"])
    assert shown.exit_code == 0
    page = in_one_line(shown.stdout)
    parameters: list[Any] = vars(command)["params"]  # Any: typer does not export these classes
    texts = [getattr(command, "help", ""), *(getattr(one, "help", "") for one in parameters)]
    texts += [str(one.show_default) for one in parameters if isinstance(one.show_default, str)]
    for text in filter(None, texts):
        for bracketed in re.findall(r"\S*\[[^\]]*\]\S*", text.replace("\\[", "[")):
            assert in_one_line(bracketed) in page, bracketed
