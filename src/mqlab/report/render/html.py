"""The report as one self-contained HTML page, with style, script and pictures inside."""

import base64
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mqlab.report.render.content import Block, Figure, Link, Page, Prose, Table


def render(page: Page) -> str:
    """Render the page. Every text is escaped; only pictures, made by `svg.clean`, are markup.

    Its content security policy forbids all requests and all scripts but its own.
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
