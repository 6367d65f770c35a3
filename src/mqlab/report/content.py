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

    `below` are further lines of the same cell, each with a tone of its own.
    """

    text: str
    note: str = ""
    tone: str = ""
    stamps: tuple[str, ...] = ()
    below: tuple["Cell", ...] = ()

    @property
    def words(self) -> str:
        """All the cell says, in one line."""
        stamps = "".join(f" [{stamp}]" for stamp in self.stamps)
        own = f"{self.text}{stamps}" + (f" ({self.note})" if self.note else "")
        return "; ".join([own, *(cell.words for cell in self.below)])


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
    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """`name` is the stem of its file. `description` says in words what the picture shows."""

    name: str
    title: str
    svg: str
    description: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prose:
    text: str


Block = Table | Figure | Prose


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
