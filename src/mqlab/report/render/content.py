"""The report before it has a form: sections of tables and figures, plain text everywhere.

HTML, Markdown and the terminal draw these same values, so none of them can say what another does not.
Escaping is the business of each form; `Figure.svg` alone is markup, and `svg.clean` made it.
"""

from dataclasses import dataclass, field
from typing import Final

PUBLISHED: Final = "published"
MEASURED: Final = "measured here"


@dataclass(frozen=True)
class Cell:
    """`tone` picks how it looks (a verdict, a status, an origin, "number", "absent"); `note` is its small print.

    `below` are further lines of the same cell, each with a tone of its own. `link` is a file beside the page.
    """

    text: str
    note: str = ""
    tone: str = ""
    stamps: tuple[str, ...] = ()
    below: tuple["Cell", ...] = ()
    link: str = ""

    @property
    def words(self) -> str:
        """All the cell says, in one line."""
        stamps = "".join(f" [{stamp}]" for stamp in self.stamps)
        own = f"{self.text}{stamps}" + (f" ({self.note})" if self.note else "")
        return "; ".join([own.strip(), *(cell.words for cell in self.below)])


def number(text: str, note: str = "") -> Cell:
    return Cell(text, note, "number")


@dataclass(frozen=True)
class Row:
    """`origin` is PUBLISHED or MEASURED where a table holds both, so that no form can mix them unlabelled."""

    cells: tuple[Cell, ...]
    origin: str = ""


def row(*cells: Cell, origin: str = "") -> Row:
    return Row(cells, origin)


@dataclass(frozen=True)
class Table:
    """`groups`, where there are any, stand above the head: a text and the number of columns below it."""

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
    """`name` is the stem of its file. `description` says in words what the picture shows.

    A `wide` one takes a whole row of a page that has two columns.
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
    """The way to a file beside the page."""

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
    """A headline figure."""

    label: str
    figure: str
    note: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Page:
    title: str
    source: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())

    def figures(self) -> list[Figure]:
        def inside(sections: tuple[Section, ...]) -> list[Figure]:
            found: list[Figure] = []
            for section in sections:
                found += [block for block in section.blocks if isinstance(block, Figure)]
                found += inside(section.parts)
            return found

        return inside(self.sections)
