"""An HTML report as a test reads it: its headings, tables, figures and links; broken nesting is an error."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

VOID_ELEMENTS = {"meta", "br", "link", "img", "input", "hr"}


@dataclass
class ReadTable:
    title: str = ""
    head: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    stamps: list[list[str]] = field(default_factory=list)

    def row(self, beginning: str) -> list[str]:
        return next(row for row in self.rows if row[0].startswith(beginning))


@dataclass
class ReadPage(HTMLParser):
    text: str = ""
    titles: list[str] = field(default_factory=list)
    tables: list[ReadTable] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    source: str = ""

    @classmethod
    def of(cls, path: Path) -> "ReadPage":
        page = cls()
        page.source = path.read_text(encoding="utf-8")
        page.feed(page.source)
        page.close()
        assert page._open == [], f"never closed: {page._open}"
        return page

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._words: list[str] = []

    def table(self, title: str) -> ReadTable:
        return next(table for table in self.tables if table.title == title)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self._open.append(tag)
        if tag == "table":
            self.tables.append(ReadTable())
        elif tag == "tr":
            self.tables[-1].rows.append([])
            self.tables[-1].stamps.append([])
        elif tag == "svg":
            self.pictures.append(dict(attrs).get("aria-label") or "")
        if tag in ("th", "td", "caption", "figcaption", "h1", "h2", "h3"):
            self._words = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes something else"
        words = " ".join("".join(self._words).split())
        if tag in ("th", "td"):
            self.tables[-1].rows[-1].append(words)
        elif tag == "caption":
            self.tables[-1].title = words
        elif tag == "figcaption":
            self.figures.append(words)
        elif tag in ("h1", "h2", "h3"):
            self.titles.append(words)
        elif tag == "thead":
            self.tables[-1].head = self.tables[-1].rows.pop()
            self.tables[-1].groups = self.tables[-1].rows.pop() if self.tables[-1].rows else []
            self.tables[-1].stamps.clear()

    def handle_data(self, data: str) -> None:
        if "style" in self._open or "script" in self._open:
            return
        if self._open and self._open[-1] == "span" and self.tags[-1][1].get("class") == "stamp":
            self.tables[-1].stamps[-1].append(data)
        self._words.append(data)
        self.text += data
