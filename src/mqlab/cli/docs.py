"""`mqlab docs`: open the documentation site that comes with the package."""

import webbrowser
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from mqlab.cli.terminal.console import Exit, fail, say


def docs(
    page: Annotated[str, typer.Argument(help="A page of the site, such as tutorial/first-run.")] = "index",
    path: Annotated[bool, typer.Option("--path", help="Print the path of the page, and do not open it.")] = False,
) -> None:
    """Open the documentation in the browser. It is part of the package and needs no network."""
    site = Path(str(files("mqlab"))) / "site"
    if not (site / "index.html").is_file():
        fail(f"{site} has no documentation: make docs builds it from the source", Exit.USAGE)
    file = (site / page.removesuffix(".html").removesuffix(".md")).with_suffix(".html").resolve()
    if not file.is_relative_to(site.resolve()) or not file.is_file():
        known = sorted(str(one.relative_to(site).with_suffix("")) for one in site.rglob("*.html"))
        fail(f"no page {page}; there are {', '.join(one for one in known if one != '404')}", Exit.USAGE)
    if path:
        print(file)
        return
    say(f"documentation: {file}")
    webbrowser.open(file.as_uri())
