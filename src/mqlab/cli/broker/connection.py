"""What all commands over a running broker share: which one, as whom, and how they end when it does not go well."""

import asyncio
import functools
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from mqlab.cli.broker.escaping import plain
from mqlab.cli.console import Exit, fail
from mqlab.client import aio
from mqlab.client.errors import LoginError, MessagingError, RefusedError
from mqlab.wire.address import BadAddressError

DEFAULT_ADDRESS: Final = "tcp:127.0.0.1:7766"
_CONNECT_SECONDS: Final = 10.0
# A large purge takes seconds; a broker that says nothing for so long is stuck.
_ANSWER_SECONDS: Final = 60.0

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="queue:NAME or subscription:NAME.")]
SelectorOption = Annotated[
    str, typer.Option(metavar="SELECTOR", help="Only messages it selects, as in \"colour = 'red' AND weight > 2\".")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal to ask at.")]

_AT = Annotated[str, typer.Option(envvar="MQLAB_BROKER", metavar="ADDRESS", help="Where the broker listens.")]
_USER = Annotated[
    str,
    typer.Option(envvar="MQLAB_USER", help="Log in with this name; the password is MQLAB_PASSWORD, or asked for."),
]
_CA = Annotated[
    Path | None,
    typer.Option(
        envvar="MQLAB_CA",
        exists=True,
        dir_okay=False,
        readable=True,
        help="Certificates (PEM) to trust with a tls: address, in place of those this machine trusts.",
    ),
]
_ACCESS: Final = [
    inspect.Parameter("at", inspect.Parameter.KEYWORD_ONLY, default=DEFAULT_ADDRESS, annotation=_AT),
    inspect.Parameter("user", inspect.Parameter.KEYWORD_ONLY, default="", annotation=_USER),
    inspect.Parameter("ca", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_CA),
]


class Asked:
    """A broker that can be asked."""

    def __init__(self, connection: aio.Connection) -> None:
        self.connection = connection

    async def ask(self, question: str, **more: Any) -> dict[str, Any]:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await self.connection.ask(question, **more)


def over_the_wire(command: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A command for typer: in place of the first parameter, the broker, it has the options that say which one."""

    @functools.wraps(command)
    def run(*, at: str, user: str, ca: Path | None, **rest: Any) -> None:
        password = _password(user)
        try:
            asyncio.run(_run(at, user, password, ca, lambda broker: command(broker, **rest)))
        except (RefusedError, LoginError, BadAddressError) as error:
            fail(plain(str(error)), Exit.USAGE)
        except (MessagingError, OSError) as error:
            _unavailable(at, error)

    signature = inspect.signature(command)
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in [*signature.parameters.values()][1:]]
    run.__signature__ = signature.replace(parameters=[*own, *_ACCESS])  # type: ignore[attr-defined]
    return run


def make_sure(question: str, *, yes: bool) -> None:
    """Ends the command unless the answer is yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("this cannot be undone, and there is no terminal to ask at; say --yes", Exit.USAGE)
    if not typer.confirm(plain(question), err=True):
        fail("nothing was done", Exit.INTERRUPTED)


async def _run(at: str, user: str, password: str, ca: Path | None, command: Callable[[Asked], Awaitable[None]]) -> None:
    async with asyncio.timeout(_CONNECT_SECONDS):
        connection = await aio.connect(at, user=user, password=password, ca=ca)
    async with connection:
        await command(Asked(connection))


def _password(user: str) -> str:
    """Never an option: the list of processes would show it."""
    if not user:
        return ""
    known = os.environ.get("MQLAB_PASSWORD")
    if known is not None:
        return known
    if not sys.stdin.isatty():
        fail("the password is missing: set MQLAB_PASSWORD, since there is no terminal to ask at", Exit.USAGE)
    return str(typer.prompt("Password", hide_input=True, err=True))


def _unavailable(at: str, error: Exception) -> NoReturn:
    reason = "it takes too long" if isinstance(error, TimeoutError) else str(error)
    fail(plain(f"the broker at {at} cannot be asked: {reason}"), Exit.SYSTEM_UNAVAILABLE)
