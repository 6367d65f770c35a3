"""`mqlab serve`: the page with the runs of a folder, their reports, and the runs in progress."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.terminal.console import Exit, fail, say
from mqlab.serve.server import PageServer


def serve(
    runs: Annotated[Path, typer.Option(envvar="MQLAB_RUNS", help="The folder with the run folders.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on the loopback; 0: any free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Serve the page on this machine until Ctrl-C. Its address has the token that starting and stopping runs needs."""
    try:
        server = PageServer(runs.resolve(), port)
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
