"""The report as one self-contained HTML page, with style, scripts, pictures and the charts' data inside."""

import base64
import gzip
import json
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mqlab.report.charts.drawing import VEGA_LITE
from mqlab.report.render.content import Block, Figure, Link, Page, Prose, Table

_CODE: Final = re.compile(r"`([^`]+)`")


def render(page: Page) -> str:
    """Render the page. Every text is escaped; only pictures, made by `svg.clean`, are markup.

    Its content security policy forbids all requests and all scripts but its own and the chart library, which the page
    has inside, compressed, and runs only when a reader works with a chart.
    """
    templates = files("mqlab.report.render") / "templates"
    style, script = ((templates / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    specs = {figure.name: figure.spec for figure in page.figures() if figure.spec}
    library = _chart_library() if specs else ""
    return (
        _environment()
        .get_template("report.html")
        .render(
            page=page,
            style=Markup(style),
            script=Markup(script),
            script_hashes=" ".join(f"'{_digest(text)}'" for text in (script, library) if text),
            library=_packed(library) if library else "",
            charts=_packed(json.dumps(specs, separators=(",", ":"))) if specs else "",
        )
    )


@cache
def _chart_library() -> str:
    """Vega and Vega-Lite, of the version that draws the pictures, as one script that defines `vegaEmbed`."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return bundle


def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(sha256(script.encode()).digest()).decode()}"


@cache
def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


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


def _with_code(text: str) -> Markup:
    """The escaped text; what is between backticks, as other forms show commands, is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


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
    environment.filters["with_code"] = _with_code
    environment.filters["picture"] = lambda figure: Markup(figure.svg)
    return environment
