"""The report as one HTML page that needs nothing else: style, script and pictures stand inside it."""

import base64
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mqlab.report.render.content import Block, Figure, Link, Page, Prose, Table


def render(page: Page) -> str:
    """Every text is escaped; only the pictures that `svg.clean` let through are markup.

    The page also tells the browser to fetch nothing and to run no script but its own.
    """
    templates = files("mqlab.report.render") / "templates"
    style, script = ((templates / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html")
        .render(page=page, style=Markup(style), script=Markup(script), script_hash=f"sha256-{digest}")
    )


def _kind(block: Block) -> str:
    match block:
        case Table():
            return "table"
        case Figure():
            return "figure"
        case Link():
            return "link"
        case Prose():
            return "prose"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mqlab.report.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["kind"] = _kind
    environment.filters["picture"] = lambda figure: Markup(figure.svg)
    return environment
