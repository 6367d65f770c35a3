"""The content of a report, independent of its format: sections of tables and figures, as plain text.

HTML, Markdown and the terminal render these same values. Each format escapes texts itself; only `Figure.svg` is
markup, made by `svg.clean`.
"""

from dataclasses import dataclass, field
from typing import Final

PUBLISHED: Final = "published"
MEASURED: Final = "measured here"


@dataclass(frozen=True)
class Cell:
    """`tone` selects its style (a verdict, a status, an origin, "number", "absent"); `note` is its small print.

    `below` are further lines of the cell, each with its own tone. `link` is a file beside the page.
    """

    text: str
    note: str = ""
    tone: str = ""
    stamps: tuple[str, ...] = ()
    below: tuple["Cell", ...] = ()
    link: str = ""

    @property
    def full_text(self) -> str:
        """The whole text of the cell, in one line."""
        stamps = "".join(f" [{stamp}]" for stamp in self.stamps)
        own = f"{self.text}{stamps}" + (f" ({self.note})" if self.note else "")
        return "; ".join([own.strip(), *(cell.full_text for cell in self.below)])


def number(text: str, note: str = "") -> Cell:
    return Cell(text, note, "number")


@dataclass(frozen=True)
class Row:
    """`origin` is PUBLISHED or MEASURED where a table has both, so that every format labels them."""

    cells: tuple[Cell, ...]
    origin: str = ""


def row(*cells: Cell, origin: str = "") -> Row:
    return Row(cells, origin)


@dataclass(frozen=True)
class Table:
    """`groups` are a line above the head: texts and the number of columns below each."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    folded: bool = False
    groups: tuple[tuple[str, int], ...] = ()

    @property
    def full_head(self) -> tuple[str, ...]:
        """The head in one line, each column with its group."""
        above = [text for text, columns in self.groups for _ in range(columns)] or [""] * len(self.head)
        pairs = zip(above, self.head, strict=True)
        return tuple(": ".join(part for part in pair if part) for pair in pairs)


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its file name, `description` its text for readers who cannot see the picture.

    A `wide` figure takes both columns of the page.
    """

    name: str
    title: str
    svg: str
    description: str
    notes: tuple[str, ...] = ()
    wide: bool = False


@dataclass(frozen=True)
class Prose:
    text: str


@dataclass(frozen=True)
class Link:
    """A link to a file beside the page."""

    text: str
    link: str


Block = Table | Figure | Prose | Link


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    blocks: tuple[Block, ...] = ()
    parts: tuple["Section", ...] = ()


@dataclass(frozen=True)
class Tile:
    label: str
    figure: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Page:
    """`answer` is its first sentence; "" on a page of several runs."""

    title: str
    source: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())
    answer: str = ""

    def figures(self) -> list[Figure]:
        def inside(sections: tuple[Section, ...]) -> list[Figure]:
            figures: list[Figure] = []
            for section in sections:
                figures += [block for block in section.blocks if isinstance(block, Figure)]
                figures += inside(section.parts)
            return figures

        return inside(self.sections)
