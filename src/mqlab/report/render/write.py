"""Writing of the report's files into the run folder."""

from pathlib import Path
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import check_measures
from mqlab.report.charts import svg
from mqlab.report.data.run_results import RunResults
from mqlab.report.render import html, markdown
from mqlab.report.render.page import build

HTML_FILE: Final = "index.html"
MARKDOWN_FILE: Final = "report.md"


def write_report(folder: RunFolder) -> Path:
    """Replace `report/`: the HTML page, whose path is returned, the Markdown and its pictures.

    Raises NotMeasuredError, also if the events have changed since they were measured.
    """
    results = RunResults.of(folder)
    check_measures(folder)
    page = build(results)
    folder.report.mkdir(exist_ok=True)
    for old in folder.report.glob("*.svg"):
        old.unlink()
    for figure in page.figures():
        write_text(folder.report / markdown.file_name(figure), svg.as_file(figure.svg))
    write_text(folder.report / MARKDOWN_FILE, markdown.render(page))
    return write_text(folder.report / HTML_FILE, html.render(page))


def write_text(path: Path, text: str) -> Path:
    """Write a file atomically: an interruption leaves the old one."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    # A surrogate in a name cannot be encoded and is replaced.
    unfinished.write_text(text, encoding="utf-8", errors="replace")
    return unfinished.replace(path)
