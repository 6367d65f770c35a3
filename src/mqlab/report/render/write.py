"""The report's files in the run folder."""

from pathlib import Path
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.pipeline import sources
from mqlab.report.charts import svg
from mqlab.report.data.findings import Findings
from mqlab.report.render import html, markdown
from mqlab.report.render.page import build

HTML_FILE: Final = "index.html"
MARKDOWN_FILE: Final = "report.md"


def write_report(folder: RunFolder) -> Path:
    """Writes `report/` anew: the HTML page, whose path it returns, the Markdown and its pictures.

    Raises NotMeasuredError, also where the events have changed since they were measured.
    """
    sources.check_measures(folder)
    page = build(Findings.of(folder))
    folder.report.mkdir(exist_ok=True)
    for old in folder.report.glob("*.svg"):
        old.unlink()
    for figure in page.figures():
        write_text(folder.report / markdown.file_name(figure), svg.as_file(figure.svg))
    write_text(folder.report / MARKDOWN_FILE, markdown.render(page))
    return write_text(folder.report / HTML_FILE, html.render(page))


def write_text(path: Path, text: str) -> Path:
    """As a whole or not at all: an interruption leaves the old file."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    # Surrogates cannot be encoded: a name that holds one must not cost the whole report.
    unfinished.write_text(text, encoding="utf-8", errors="replace")
    return unfinished.replace(path)
