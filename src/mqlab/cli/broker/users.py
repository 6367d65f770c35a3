"""`mqlab broker users FILE`: the users of a broker and their rights."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mqlab.broker.security.rights import RIGHTS, check_right
from mqlab.broker.security.users import Users
from mqlab.broker.settings import SettingError
from mqlab.cli.broker.common.connection import AsJson
from mqlab.cli.broker.common.safe_output import cell, plain, show_plain_json
from mqlab.cli.terminal.console import Exit, fail, say, show, table_of

users = typer.Typer(invoke_without_command=True, subcommand_metavar="[COMMAND [ARGS]...]")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a user.")]
RightArgument = Annotated[str, typer.Argument(metavar="RIGHT", help=", ".join(RIGHTS) + ".")]
PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", help="all, queue:NAME or topic:NAME; * matches one level, # at the end all others."
    ),
]
FromStdin = Annotated[bool, typer.Option("--stdin", help="Read the password from stdin: one line, no prompt.")]


@users.callback()
def about(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The users file of the broker; add creates it.")],
) -> None:
    """List users (the default), add and remove them, set passwords, grant and revoke rights.

    A running broker applies a change at the next login.
    """
    context.obj = file
    if context.invoked_subcommand is None:
        list_users(context)


@users.command("list")
def list_users(context: typer.Context, as_json: AsJson = False) -> None:
    """List the users and their rights."""
    try:
        known = Users.read(context.obj)
    except SettingError as error:
        fail(plain(str(error)), Exit.USAGE)
    if as_json:
        each = [{"name": user.name, **{right: user.rights.of(right) for right in RIGHTS}} for user in known]
        show_plain_json({"users": each})
        return
    rows = ([cell(user.name), *(cell(" ".join(user.rights.of(right))) for right in RIGHTS)] for user in known)
    show(table_of(("user", *RIGHTS), rows))
    if known.weak:
        say(plain(f"weak password hashes: {', '.join(known.weak)}; the command password replaces one"))


@users.command()
def add(context: typer.Context, name: Name, stdin: FromStdin = False) -> None:
    """Add a user without rights."""
    password = _new_password(stdin)
    _change(context, lambda known: known.add(name, password), f"{name} is added; the command grant gives rights")


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
    message = f"{name} may {right} {pattern}"
    _change(context, lambda known: known.grant(name, check_right(right), pattern), message)


@users.command()
def revoke(context: typer.Context, name: Name, right: RightArgument, pattern: PatternArgument) -> None:
    """Revoke a right that was granted with the same pattern."""
    message = f"{name} no longer has the right to {right} {pattern}"
    _change(context, lambda known: known.revoke(name, check_right(right), pattern), message)


def _change(context: typer.Context, change: Callable[[Users], None], message: str) -> None:
    try:
        with Users.change(context.obj) as known:
            change(known)
    except SettingError as error:
        fail(plain(str(error)), Exit.USAGE)
    say(plain(message))


def _new_password(stdin: bool) -> str:
    if stdin:
        return sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    if not sys.stdin.isatty():
        fail("there is no terminal to ask for the password on; pass --stdin to read it from stdin", Exit.USAGE)
    return str(typer.prompt("New password", hide_input=True, confirmation_prompt="Again", err=True))
