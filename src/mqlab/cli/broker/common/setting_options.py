"""The settings of a broker as command line options. Their help texts are the comments of the example file."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.markup import escape

from mqlab.broker.config import parse_value
from mqlab.broker.config_example import EXAMPLE
from mqlab.broker.policy import Policy
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings

# Policies by pattern are too long for an option; only a configuration file can hold them.
OPTION_NAMES: Final = tuple(name for name in SETTING_NAMES if name != "policies")
# An option as typer passes it; None: the user did not give it.
OptionValue = str | bool | Sequence[str] | None
_DEFAULTS: Final = {field.name: field.default for kind in (Settings, Policy) for field in fields(kind)}


class SettingHelp(NamedTuple):
    """The comment and default of a setting in the example file. Settings below one comment share it."""

    panel: str
    help: str
    default: str


# Options that may be repeated, by setting: each use adds a value.
_REPEATABLE: Final = {"listen": "listen", "web_origins": "web_origin", "remotes": "remote", "channels": "channel"}
_ITEM_METAVARS: Final = {"listen": "ADDRESS", "web_origins": "ORIGIN"}


def option_name(name: str) -> str:
    return f"--{_REPEATABLE.get(name, name).replace('_', '-')}"


def setting_helps(text: str) -> dict[str, SettingHelp]:
    """Read the help of each setting from an example file: heading of its section, comment above it, default as text."""
    helps: dict[str, SettingHelp] = {}
    # The first section describes the file itself.
    for section in text.split("\n\n")[1:]:
        heading, *lines = section.splitlines()
        comment: list[str] = []
        help_text = ""
        for line in lines:
            if line.startswith("#"):
                comment.append(line.removeprefix("#").strip())
                continue
            key, _, default = line.partition(":")
            help_text = " ".join(comment) or help_text
            comment = []
            panel = re.split("[,:]", heading)[0].strip("# ").capitalize()
            helps[key] = SettingHelp(panel, help_text, default.strip(' []"'))
    return helps


def parameters() -> list[inspect.Parameter]:
    """Return the parameters of the command. An option that the user leaves out is None: the file may set it."""
    return [_parameter(name, about) for name, about in setting_helps(EXAMPLE).items() if name in OPTION_NAMES]


def parse_options(given: Mapping[str, OptionValue]) -> dict[str, object]:
    """Return the values for Settings of the options that the user gave."""
    values: dict[str, object] = {}
    for name, value in given.items():
        try:
            if isinstance(value, bool | str):
                values[name] = value if isinstance(value, bool) else parse_value(name, value)
            elif value:
                values[name] = tuple(item for text in value for item in parse_value(name, text))
        except SettingError as error:
            raise typer.BadParameter(str(error), param_hint=option_name(name)) from None
    return values


def _parameter(name: str, about: SettingHelp) -> inspect.Parameter:
    kind: object = str | None
    names = [option_name(name)]
    metavar: str | None = _metavar(name)
    if isinstance(_DEFAULTS[name], bool):
        kind, metavar = bool | None, None
        names = [f"{option_name(name)}/--no-{name.replace('_', '-')}"]
    elif name in _REPEATABLE:
        kind = list[str] | None
    info = typer.Option(
        *names, help=escape(about.help), show_default=about.default, metavar=metavar, rich_help_panel=about.panel,
        envvar=f"MQLAB_BROKER_{name.upper()}", show_envvar=False,
    )  # fmt: skip
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


def _metavar(name: str) -> str:
    default = _DEFAULTS[name]
    if isinstance(default, int):
        return "NUMBER"
    if name in _REPEATABLE:
        return _ITEM_METAVARS.get(name, "NAME=TARGET")
    return "PATH" if default is None else "TEXT"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MQLAB_BROKER_CONFIG",
        help="A file with settings (`mqlab broker example-config` prints one). Options override the file.",
    ),
]
