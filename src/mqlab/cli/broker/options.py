"""The settings of a broker as options. What each means stands in one place: the comments of the example file."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.markup import escape

from mqlab.broker.config import example, parse_value
from mqlab.broker.policy import Policy
from mqlab.broker.settings import SETTING_NAMES, SettingError, Settings

# Rules by pattern do not fit an option; a file has room for them.
OPTION_NAMES: Final = tuple(name for name in SETTING_NAMES if name != "policies")
_DEFAULTS: Final[dict[str, Any]] = {one.name: one.default for kind in (Settings, Policy) for one in fields(kind)}


class About(NamedTuple):
    """What the example file says of a setting; one without words of its own shares those before it."""

    panel: str
    help: str
    default: str


# Each time they are given, there is one more.
_SEVERAL: Final = {"listen": "listen", "web_origins": "web_origin", "remotes": "remote", "channels": "channel"}
_EACH: Final = {"listen": "ADDRESS", "web_origins": "ORIGIN"}


def option(name: str) -> str:
    return f"--{_SEVERAL.get(name, name).replace('_', '-')}"


def described(text: str) -> dict[str, About]:
    """By setting: the heading of its part of the file, the comment above it, and its default as text."""
    found: dict[str, About] = {}
    # The first part is about the file.
    for part in text.split("\n\n")[1:]:
        heading, *lines = part.splitlines()
        comment: list[str] = []
        words = ""
        for line in lines:
            if line.startswith("#"):
                comment.append(line.removeprefix("#").strip())
                continue
            key, _, default = line.partition(":")
            words = " ".join(comment) or words
            comment = []
            found[key] = About(re.split("[,:]", heading)[0].strip("# ").capitalize(), words, default.strip(' []"'))
    return found


def parameters() -> list[inspect.Parameter]:
    """For the signature of the command. What is not given is None, so that a file may say it."""
    return [_parameter(name, about) for name, about in described(example()).items() if name in OPTION_NAMES]


def chosen(given: dict[str, Any]) -> dict[str, Any]:
    """Values for Settings, of the options that were given."""
    values: dict[str, Any] = {}
    for name, said in given.items():
        try:
            if name in _SEVERAL and said:
                values[name] = tuple(one for text in said for one in parse_value(name, text))
            elif said is not None and name not in _SEVERAL:
                values[name] = said if isinstance(said, bool) else parse_value(name, said)
        except SettingError as error:
            raise typer.BadParameter(str(error), param_hint=option(name)) from None
    return values


def _parameter(name: str, about: About) -> inspect.Parameter:
    kind: Any = str | None
    names = [option(name)]
    metavar: str | None = _metavar(name)
    if isinstance(_DEFAULTS[name], bool):
        kind, metavar = bool | None, None
        names = [f"{option(name)}/--no-{name.replace('_', '-')}"]
    elif name in _SEVERAL:
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
    if name in _SEVERAL:
        return _EACH.get(name, "NAME=TARGET")
    return "PATH" if default is None else "TEXT"


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MQLAB_BROKER_CONFIG",
        help="A file with settings (`mqlab broker example-config` prints one). Options come before what it says.",
    ),
]
