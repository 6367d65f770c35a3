"""The run index: a page of several runs, with the headline of each and a link to its report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import CLEAN, FAILED
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.answer import answer
from mqlab.report.exhibits.headline import audit_tile, verdict_tile, warnings
from mqlab.report.exhibits.trust import trust_lights
from mqlab.report.render import formatting, html, markdown
from mqlab.report.render.content import FAIR, POOR, Cell, Link, Page, Section, Tab, Table, Tile, row
from mqlab.report.render.write import HTML_FILE, MARKDOWN_FILE, write_text

INDEX_HTML: Final = "index.html"
INDEX_MARKDOWN: Final = "index.md"


def write_index(folders: Sequence[RunFolder]) -> Path:
    """Write `index.html`, whose path is returned, and `index.md` beside the run folders, whose reports must exist."""
    parent = Path(os.path.commonpath([folder.path.resolve().parent for folder in folders]))
    runs = [RunResults.of(folder) for folder in folders]
    write_text(parent / INDEX_MARKDOWN, markdown.render(_page(runs, parent, MARKDOWN_FILE)))
    return write_text(parent / INDEX_HTML, html.render(_page(runs, parent, HTML_FILE)))


def _page(runs: Sequence[RunResults], parent: Path, file: str) -> Page:
    audited = sum(len(results.audits) for results in runs)
    clean = sum(audit.status == CLEAN for results in runs for audit in results.audits)
    audit = Tile(
        "Delivery audits",
        f"{clean:,} of {audited:,} runs clean",
        tone=CLEAN if clean == audited and audited else FAILED,
    )
    sections = (_overview(runs, parent, file), *(_section(results, parent, file) for results in runs))
    scales = formatting.listed(list(dict.fromkeys(results.scale for results in runs)))
    return Page(
        title=f"{formatting.count(len(runs), 'study', 'studies')}, {scales} scale",
        source="",
        facts=(("Studies", formatting.listed([results.study.id for results in runs])),),
        tiles=(Tile("Studies", f"{len(runs):,}"), audit),
        warnings=(),
        tabs=(Tab("all", "Studies", sections),),
    )


def _overview(runs: Sequence[RunResults], parent: Path, file: str) -> Section:
    rows = []
    for results in runs:
        judged = judge(results)
        audit, verdict = audit_tile(results), verdict_tile(judged)
        lights = [light for light in trust_lights(results) if light.state in (FAIR, POOR)]
        rows.append(
            row(
                Cell(results.study.title, results.study.id, link=_link(results, parent, file)),
                Cell(answer(results, judged)),
                Cell("; ".join(f"{light.label}: {light.text}" for light in lights) or "nothing"),
                Cell(audit.figure, audit.note, audit.tone),
                Cell(verdict.figure, verdict.note),
            )
        )
    head = ("Study", "Answer", "To be careful about", "Delivery audit", "Claims, measured here")
    return Section("studies", "Studies", (Table("Every study with its results", head, tuple(rows)),))


def _section(results: RunResults, parent: Path, file: str) -> Section:
    """The warnings of one study, and the link to its report."""
    warned = tuple(row(Cell(text)) for text in warnings(results))
    table = Table(f"{results.study.id}: warnings", ("Warning",), warned)
    link = Link("The report", _link(results, parent, file))
    return Section(f"study-{results.study.id}", results.study.title, (link, *((table,) if warned else ())))


def _link(results: RunResults, parent: Path, file: str) -> str:
    return os.path.relpath((results.folder.report / file).resolve(), parent).replace(os.sep, "/")
