"""`mqlab broker users FILE`: who may log in to a broker, and what they may do there."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from mqlab.broker.security.rights import RIGHTS, check_right
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError
from mqlab.cli.broker.connection import AsJson
from mqlab.cli.broker.escaping import cell, plain, show_plain_json
from mqlab.cli.console import Exit, fail, say, show

users = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a user.")]
RightArgument = Annotated[str, typer.Argument(metavar="RIGHT", help=", ".join(RIGHTS) + ".")]
PatternArgument = Annotated[
    str, typer.Argument(metavar="PATTERN", help="all, queue:NAME or topic:NAME; * is one level, # at the end the rest.")
]
FromStdin = Annotated[bool, typer.Option("--stdin", help="Read the password from stdin, one line, without asking.")]


@users.callback()
def about(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The broker's file of users; add makes it.")],
) -> None:
    """Users of a broker: list them (without a command), add and remove them, set passwords, grant and revoke rights.

    A broker that runs takes a change up at the next login.
    """
    context.obj = file
    if context.invoked_subcommand is None:
        list_users(context)


@users.command("list")
def list_users(context: typer.Context, as_json: AsJson = False) -> None:
    """List the users and their rights."""
    try:
        found = Users.read(context.obj)
    except SettingError as error:
        fail(plain(str(error)), Exit.USAGE)
    if as_json:
        each = [{"name": one.name, **{right: one.rights.of(right) for right in RIGHTS}} for one in found]
        show_plain_json({"users": each})
        return
    table = Table("user", *RIGHTS, box=None)
    for one in found:
        table.add_row(cell(one.name), *(cell(" ".join(one.rights.of(right))) for right in RIGHTS))
    show(table)
    if found.weak:
        say(plain(f"password hashes weaker than those made today: {', '.join(found.weak)}; password sets one again"))


@users.command()
def add(context: typer.Context, name: Name, stdin: FromStdin = False) -> None:
    """Add a user, who has no rights yet."""
    password = _new_password(stdin)
    _change(context, lambda known: known.add(name, password), f"{name} is added; grant gives rights")


@users.command()
def remove(context: typer.Context, name: Name) -> None:
    """Remove a user."""
    _change(context, lambda known: known.remove(name), f"{name} is removed")


@users.command()
def password(context: typer.Context, name: Name, stdin: FromStdin = False) -> None:
    """Set the password of a user."""
    new = _new_password(stdin)
    _change(context, lambda known: known.set_password(name, new), f"{name} has a new password")


@users.command()
def grant(context: typer.Context, name: Name, right: RightArgument, pattern: PatternArgument) -> None:
    """Let a user read, write, create or administer the destinations of a pattern."""
    words = f"{name} may {right} {pattern}"
    _change(context, lambda known: known.grant(name, check_right(right), pattern), words)


@users.command()
def revoke(context: typer.Context, name: Name, right: RightArgument, pattern: PatternArgument) -> None:
    """Take a right back, with the pattern it was granted with."""
    words = f"{name} has no right to {right} {pattern} any more"
    _change(context, lambda known: known.revoke(name, check_right(right), pattern), words)


def _change(context: typer.Context, change: Callable[[Users], None], words: str) -> None:
    try:
        with Users.change(context.obj) as known:
            change(known)
    except SettingError as error:
        fail(plain(str(error)), Exit.USAGE)
    say(plain(words))


def _new_password(stdin: bool) -> str:
    if stdin:
        return sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        fail("there is no terminal to ask for the password at; say --stdin to read it from there", Exit.USAGE)
    return str(typer.prompt("New password", hide_input=True, confirmation_prompt="Again", err=True))
