"""`mqlab broker page`: the page of a running broker, on this machine."""

import webbrowser
from typing import Annotated

import typer

from mqlab.cli.broker.common.connection import DEFAULT_ADDRESS, AtOption, CaOption, UserOption, password_of
from mqlab.cli.terminal.console import Exit, fail, say
from mqlab.serve.broker_page import BrokerLogin, BrokerPageServer


def page(
    at: AtOption = DEFAULT_ADDRESS,
    user: UserOption = "",
    ca: CaOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on the loopback; 0: any free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Serve the page of a running broker until Ctrl-C: read-only, unless --user logs in."""
    try:
        server = BrokerPageServer(BrokerLogin(at, user, password_of(user), ca), port)
    except OSError as error:
        fail(f"--port {port}: {error.strerror}", Exit.USAGE)
    say(f"page: {server.url}")
    if browser:
        webbrowser.open(server.url)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    finally:
        server.server_close()
