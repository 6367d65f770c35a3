"""Shared by the commands for a running broker: options of the connection, the connection itself, errors."""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from mqlab.cli.broker.common.safe_output import plain
from mqlab.cli.terminal.console import Exit, fail
from mqlab.client import aio
from mqlab.client.errors import LoginError, MessagingError, RefusedError
from mqlab.json_values import JsonObject
from mqlab.wire.address import BadAddressError

DEFAULT_ADDRESS: Final = "tcp:127.0.0.1:7766"
_CONNECT_TIMEOUT_S: Final = 10.0
# A large purge takes seconds; a broker that does not answer for this long is stuck.
_REQUEST_TIMEOUT_S: Final = 60.0

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="queue:NAME or subscription:NAME.")]
SelectorOption = Annotated[
    str, typer.Option(metavar="SELECTOR", help="Only messages that match, as in \"colour = 'red' AND weight > 2\".")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation; required without a terminal.")]

AtOption = Annotated[str, typer.Option(envvar="MQLAB_BROKER", metavar="ADDRESS", help="The address of the broker.")]
UserOption = Annotated[
    str, typer.Option(envvar="MQLAB_USER", help="Log in as this user. The password is MQLAB_PASSWORD or asked for.")
]
CaOption = Annotated[
    Path | None,
    typer.Option(
        envvar="MQLAB_CA",
        exists=True,
        dir_okay=False,
        readable=True,
        help="Certificates (PEM) to trust with a tls: address, instead of the machine's own.",
    ),
]
_CONNECTION_OPTIONS: Final = [
    inspect.Parameter("at", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT_ADDRESS, annotation=AtOption),
    inspect.Parameter("user", inspect.Parameter.KEYWORD_ONLY, default="", annotation=UserOption),
    inspect.Parameter("ca", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CaOption),
]


class BrokerAdmin:
    """Sends administration requests over an open connection, each with a time limit."""

    def __init__(self, connection: aio.Connection) -> None:
        self.connection = connection

    async def ask(self, request: str, **arguments: object) -> JsonObject:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            return await self.connection.ask(request, **arguments)


def broker_command(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Return the command for typer: options of the connection replace its first parameter, the connected broker."""

    @functools.wraps(command)
    def run(*, at: str, user: str, ca: Path | None, **rest: object) -> None:
        password = password_of(user)
        try:
            asyncio.run(_run(at, user, password, ca, lambda broker: command(broker, **rest)))
        except (RefusedError, LoginError, BadAddressError) as error:
            fail(plain(str(error)), Exit.USAGE)
        except (MessagingError, OSError) as error:
            _fail_unavailable(at, error)

    signature = inspect.signature(command)
    own = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in [*signature.parameters.values()][1:]]
    run.__signature__ = signature.replace(parameters=[*own, *_CONNECTION_OPTIONS])  # type: ignore[attr-defined] # not in typeshed
    return run


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user; end the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("this cannot be undone and there is no terminal to confirm it on; pass --yes", Exit.USAGE)
    if not typer.confirm(plain(question), err=True):
        fail("nothing was done", Exit.INTERRUPTED)


async def _run(
    at: str, user: str, password: str, ca: Path | None, command: Callable[[BrokerAdmin], Awaitable[None]]
) -> None:
    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
        connection = await aio.connect(at, user=user, password=password, ca=ca)
    async with connection:
        await command(BrokerAdmin(connection))


def password_of(user: str) -> str:
    """Return MQLAB_PASSWORD or ask the user. The password is never an option: the process list would show it."""
    if not user:
        return ""
    password = os.environ.get("MQLAB_PASSWORD")
    if password is not None:
        return password
    if not sys.stdin.isatty():
        fail("the password is missing: set MQLAB_PASSWORD, because there is no terminal to ask on", Exit.USAGE)
    return str(typer.prompt("Password", hide_input=True, err=True))


def _fail_unavailable(at: str, error: Exception) -> NoReturn:
    reason = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
    fail(plain(f"the broker at {at} is not available: {reason}"), Exit.SYSTEM_UNAVAILABLE)
