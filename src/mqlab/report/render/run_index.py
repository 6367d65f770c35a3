"""Several runs on one page: what was found in each, and the way to its report."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mqlab.events.folder import RunFolder
from mqlab.pipeline.schema import CLEAN, FAILED
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.findings import Findings, stamped
from mqlab.report.exhibits.headline import audit_tile, rate_tiles, verdict_tile, warnings
from mqlab.report.render import formatting, html, markdown
from mqlab.report.render.content import Cell, Link, Page, Section, Table, Tile, row
from mqlab.report.render.write import HTML_FILE, MARKDOWN_FILE, write_text

INDEX_HTML: Final = "index.html"
INDEX_MARKDOWN: Final = "index.md"


def write_index(folders: Sequence[RunFolder]) -> Path:
    """Writes `index.html`, whose path it returns, and `index.md` beside the run folders, whose reports are there."""
    parent = Path(os.path.commonpath([folder.path.resolve().parent for folder in folders]))
    every = [Findings.of(folder) for folder in folders]
    write_text(parent / INDEX_MARKDOWN, markdown.render(_page(every, parent, MARKDOWN_FILE)))
    return write_text(parent / INDEX_HTML, html.render(_page(every, parent, HTML_FILE)))


def _page(every: Sequence[Findings], parent: Path, file: str) -> Page:
    runs = sum(len(findings.audits) for findings in every)
    clean = sum(audit.status == CLEAN for findings in every for audit in findings.audits)
    audit = Tile(
        "Delivery audits", f"{clean:,} of {runs:,} runs clean", tone=CLEAN if clean == runs and runs else FAILED
    )
    return Page(
        title=f"{formatting.count(len(every), 'study', 'studies')}, {formatting.listed(_scales(every))} scale",
        source="",
        facts=(("Studies", formatting.listed([findings.study.id for findings in every])),),
        tiles=(Tile("Studies", f"{len(every):,}"), audit),
        warnings=(),
        sections=(_overview(every, parent, file), *(_section(findings, parent, file) for findings in every)),
    )


def _overview(every: Sequence[Findings], parent: Path, file: str) -> Section:
    rows = []
    for findings in every:
        audit, verdict = audit_tile(findings), verdict_tile(judge(findings))
        systems = [stamped(system.name, system.stamps) for system in findings.systems]
        best = [f"{tile.figure} ({tile.note})" for tile in rate_tiles(findings)]
        rows.append(
            row(
                Cell(findings.study.title, findings.study.id, link=_link(findings, parent, file)),
                Cell(formatting.listed(systems)),
                Cell("; ".join(best) or formatting.NOT_AVAILABLE),
                Cell(audit.figure, audit.note, audit.tone),
                Cell(verdict.figure, verdict.note),
            )
        )
    head = ("Study", "Systems", "Highest", "Delivery audit", "Claims, measured here")
    return Section("studies", "Studies", (Table("Every study with what was found", head, tuple(rows)),))


def _section(findings: Findings, parent: Path, file: str) -> Section:
    """What a reader must know of one study before its figures, and the way to its report."""
    warned = tuple(row(Cell(text)) for text in warnings(findings))
    table = Table(f"{findings.study.id}: to know before the first figure", ("What",), warned)
    link = Link("The report", _link(findings, parent, file))
    return Section(f"study-{findings.study.id}", findings.study.title, (link, *((table,) if warned else ())))


def _link(findings: Findings, parent: Path, file: str) -> str:
    return os.path.relpath((findings.folder.report / file).resolve(), parent).replace(os.sep, "/")


def _scales(every: Sequence[Findings]) -> list[str]:
    return list(dict.fromkeys(findings.scale for findings in every))
