"""The report as Markdown; pictures are files beside it."""

import re
from collections.abc import Iterator
from urllib.parse import quote

from mqlab.report.render.content import Block, Figure, Link, Page, Prose, Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!])")


def render(page: Page) -> str:
    return "\n".join(_lines(page)).rstrip() + "\n"


def file_name(figure: Figure) -> str:
    return f"{figure.name}.svg"


def _lines(page: Page) -> Iterator[str]:
    yield from (f"# {_text(page.title)}", "")
    for answer in page.answers:
        yield from (_text(answer), "")
    if page.lights:
        yield from _grid(("Trust", "", ""), [[_text(one.label), one.state, _text(one.text)] for one in page.lights])
    if page.undecided:
        command = f" `{page.undecided.command}`" if page.undecided.command else ""
        yield from (f"{_text(page.undecided.text)}{command}", "")
    if page.source:
        yield from (_text(page.source), "")
    yield from _grid(("", ""), [[_text(key), _text(value)] for key, value in page.facts])
    for warning in page.warnings:
        yield from (f"> {_text(warning)}", "")
    yield from ("## What was found", "")
    yield from _grid(("", "Figure", ""), [[_text(t.label), _text(t.figure), _text(t.note)] for t in page.tiles])
    for tab in page.tabs:
        if len(page.tabs) > 1:
            yield from (f"## {_text(tab.title)}", "")
        for section in tab.sections:
            yield from (f"### {_text(section.title)}", "")
            for block in section.blocks:
                yield from _block(block, section.title)


def _block(block: Block, section: str) -> Iterator[str]:
    if isinstance(block, Prose):
        yield from (_text(block.text), "")
        return
    if isinstance(block, Link):
        yield from (_linked(_text(block.text), block.link), "")
        return
    if block.title != section:
        yield from (f"#### {_text(block.title)}", "")
    if isinstance(block, Table):
        yield from _grid(
            tuple(_text(head) for head in block.full_head),
            [[_linked(_text(c.full_text), c.link) for c in row.cells] for row in block.rows],
        )
    else:
        yield from (f"![{_text(block.description)}]({file_name(block)})", "")
    for note in block.notes:
        yield from (_text(note), "")


def _grid(head: tuple[str, ...], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _linked(text: str, link: str) -> str:
    return f"[{text}]({quote(link)})" if link else text


def _text(text: str) -> str:
    """Escape plain text, so that it contains no markup and no line break."""
    escaped = _SPECIAL.sub(r"\\\1", text.replace("&", "&amp;"))
    return " ".join(escaped.split())
