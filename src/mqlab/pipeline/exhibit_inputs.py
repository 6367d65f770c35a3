"""Which comparisons and peaks the exhibits of a study show: of a grid of a thousand points they are a handful."""

from collections.abc import Iterable
from dataclasses import dataclass

from mqlab.events.folder import RunFolder
from mqlab.study import Exhibit, load_study

# A metric, and the parameters over which it is the greatest.
Peak = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class Wanted:
    compared: tuple[str, ...] = ()  # metrics of points, between systems
    peaks: tuple[Peak, ...] = ()


def exhibits_of(folder: RunFolder) -> tuple[Exhibit, ...]:
    """Those of the study as it was run; none for records without a study."""
    return load_study(folder.study, own=True).exhibits if (folder.study / "study.yaml").is_file() else ()


def wanted(exhibits: Iterable[Exhibit]) -> Wanted:
    figures = [figure for exhibit in exhibits for figure in exhibit.views]
    between = [figure for figure in figures if figure.kind in ("ratio", "faster")]
    peaks = [(figure.metric, figure.over) for figure in figures if figure.kind == "peak" or figure.over]
    return Wanted(
        compared=tuple(dict.fromkeys(figure.metric for figure in between if not figure.over)),
        peaks=tuple(dict.fromkeys(peaks)),
    )
