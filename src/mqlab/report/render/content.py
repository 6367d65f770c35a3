"""The content of a report, independent of its format: sections of tables and figures, as plain text.

HTML, Markdown and the terminal render these same values. Each format escapes texts itself; only `Figure.svg` is
markup, made by `svg.clean`.
"""

from dataclasses import dataclass
from typing import Final

from mqlab.json_values import JsonObject

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

    A `wide` figure takes both columns of the page. `spec` is the Vega-Lite specification with which the page draws a
    chart again once a reader works with it; a diagram has none.
    """

    name: str
    title: str
    svg: str
    description: str
    notes: tuple[str, ...] = ()
    wide: bool = False
    spec: JsonObject | None = None


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
    """A `folded` section shows its title alone until the reader opens it."""

    id: str
    title: str
    blocks: tuple[Block, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Tab:
    id: str
    title: str
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Tile:
    label: str
    figure: str
    note: str = ""
    tone: str = ""


GOOD: Final = "good"
FAIR: Final = "fair"
POOR: Final = "poor"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True)
class TrustLight:
    """One reason to trust the figures or not: `state` is GOOD, FAIR, POOR or UNKNOWN; `section` is its evidence."""

    label: str
    state: str
    text: str
    section: str


@dataclass(frozen=True)
class Undecided:
    """The claims that more runs could decide: a sentence, and the command that would run them ("": none helps)."""

    text: str
    command: str


@dataclass(frozen=True)
class Page:
    """`answers` are its first sentences; a page of several runs has none. With one tab there is no row of tabs."""

    title: str
    source: str
    facts: tuple[tuple[str, str], ...]
    tiles: tuple[Tile, ...]
    warnings: tuple[str, ...]
    tabs: tuple[Tab, ...]
    answers: tuple[str, ...] = ()
    lights: tuple[TrustLight, ...] = ()
    undecided: Undecided | None = None

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(section for tab in self.tabs for section in tab.sections)

    def figures(self) -> list[Figure]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]
