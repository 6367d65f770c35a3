"""The program as people expect it: its version, short help, completion, and a list of commands that costs nothing."""

import json
import re
import subprocess
import sys
from io import StringIO

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from mqlab import __version__
from mqlab.cli.app import COMMANDS, app_with, typed_command
from mqlab.cli.terminal.console import table_of

from .command import PROGRAM, environment, here
from .test_help import EVERY

# What a list of commands needs none of: Spark, columns, charts, the study language, event loops.
HEAVY = (
    "pyspark", "pyarrow", "numpy", "altair", "pydantic", "yaml", "uvloop", "asyncio", "psutil", "mqlab.runner",
    "mqlab.study",
)  # fmt: skip
# The metadata of packages, which has the version, is read with the library for mails.
METADATA = ("email",)
# The library that prints help cuts the names of options in its second column, and has no setting for it.
CUT = ("--no-api-trace-int\u2026",)
MODULES_AFTER = """
import json, sys
from mqlab.cli.app import main
sys.argv = ["mqlab", *{arguments}]
try:
    main()
except SystemExit:
    print(json.dumps([*sys.modules]), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], [], ["--version"]])
def test_what_needs_no_command_imports_none(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", MODULES_AFTER.format(arguments=arguments)], capture_output=True, text=True, check=True,
        env=environment(),
    )  # fmt: skip
    modules = json.loads(ended.stderr.splitlines()[-1])
    unwanted = HEAVY if "--version" in arguments else HEAVY + METADATA
    assert [module for module in modules if module.startswith(unwanted)] == []
    assert ended.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_the_first_sentences_of_each_command(name: str) -> None:
    root = typer.main.get_command(app_with())
    text = getattr(root, "commands")[name].help  # noqa: B009 - typer's class of groups has no types
    assert text.split("\n\n")[0].replace("\n", " ") == COMMANDS[name]


def test_the_version() -> None:
    result = here("--version")
    assert (result.exit_code, result.stdout) == (0, f"mqlab {__version__}\n")


@pytest.mark.parametrize("path", [(), ("run",), ("broker", "users"), ("systems", "start")], ids=" ".join)
def test_the_short_option_for_help(path: tuple[str, ...]) -> None:
    short, long = here(*path, "-h"), here(*path, "--help")
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert "Usage:" in short.stdout


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_no_help_is_cut_off_at_80_columns(path: tuple[str, ...]) -> None:
    shown = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app_with(), [*path, "--help"])
    assert [cut for cut in re.findall("\\S*\u2026", shown.stdout) if cut not in CUT] == []
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_no_table_is_cut_off_at_80_columns() -> None:
    output = StringIO()
    console = Console(width=80, file=output)
    words = [f"{'x' * 30}{number}" for number in range(6)]
    console.print(table_of(("a-head-of-a-column",) * 6, [words]))
    shown = output.getvalue()
    assert "\u2026" not in shown
    assert shown.count("x") == 180


def completed(typed: str) -> list[str]:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1), "_MQLAB_COMPLETE": "complete_bash"}
    ended = subprocess.run(PROGRAM, capture_output=True, text=True, env=environment(**words), check=False)
    return ended.stdout.split()


def test_a_shell_completes_commands_and_options() -> None:
    assert completed("mqlab ca") == ["capacity"]
    assert completed("mqlab capacity --go") == ["--goal"]
    assert completed("mqlab broker pu") == ["purge"]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("mqlab conformance ac", ["activemq"]),
        ("mqlab systems install ac", ["activemq"]),
        ("mqlab compare embedded ac", ["activemq"]),
        ("mqlab plan fail", ["failover"]),
        # Files are the shell's.
        ("mqlab plan ./my-st", []),
    ],
)
def test_a_shell_completes_systems_and_studies(typed: str, names: list[str]) -> None:
    assert completed(typed) == names


def test_the_command_that_was_typed() -> None:
    assert typed_command(["mqlab", "run", "x"], {}) == ["run"]
    assert typed_command(["mqlab"], {}) == []
    fish = {"_MQLAB_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "mqlab plan "}
    assert typed_command(["mqlab"], fish) == ["plan"]
