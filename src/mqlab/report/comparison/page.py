"""The page of a comparison, as HTML and Markdown beside the report of the run."""

from pathlib import Path
from typing import Final

from mqlab.report.claims.tables import gate_table
from mqlab.report.comparison.comparison import OUTCOMES, SystemComparison
from mqlab.report.comparison.sentence import answer
from mqlab.report.comparison.tables import TONES, comparison_table
from mqlab.report.exhibits.headline import warnings
from mqlab.report.render import formatting, html, markdown
from mqlab.report.render.content import Page, Section, Tab, Tile
from mqlab.report.render.write import write_text

# A tile knows the styles of an audit.
_TILES: Final = {"holds": "clean", "refuted": "failed"}


def build(comparison: SystemComparison) -> Page:
    results = comparison.results
    base, new = (comparison.name(name) for name in (comparison.base, comparison.new))
    counts = {word: comparison.count(word) for word in OUTCOMES}
    gates = (Section("gates", "Goals and gates", (gate_table(comparison.gates),)),) if comparison.gates else ()
    return Page(
        title=f"{new} against {base}",
        source="",
        facts=(("Study", results.study.id), ("Scale", results.scale), ("Base", base), ("New", new)),
        tiles=tuple(
            Tile(formatting.capital(word), f"{count:,}", tone=_TILES.get(TONES[word], ""))
            for word, count in counts.items()
        ),
        warnings=(*comparison.notes, *warnings(results)),
        tabs=(Tab("answer", "Answer", (*gates, Section("points", "Points", (comparison_table(comparison),)))),),
        answers=(answer(comparison),),
    )


def write_comparison(comparison: SystemComparison, folder: Path, name: str) -> Path:
    """Write `name`.html, whose path is returned, and `name`.md."""
    page = build(comparison)
    folder.mkdir(exist_ok=True)
    write_text(folder / f"{name}.md", markdown.render(page))
    return write_text(folder / f"{name}.html", html.render(page))
