"""The comparisons and peaks that the exhibits of a study show: only these are computed, a few of all points."""

from collections.abc import Iterable
from dataclasses import dataclass

from mqlab.events.folder import RunFolder
from mqlab.study import Exhibit, load_study

# A metric, and the swept parameters over which its greatest value is taken.
PeakRequest = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class ExhibitInputs:
    compared_metrics: tuple[str, ...] = ()  # compared between systems at every point
    peaks: tuple[PeakRequest, ...] = ()


def load_exhibits(folder: RunFolder) -> tuple[Exhibit, ...]:
    """The exhibits of the study as it was run; none for a folder without a study."""
    return load_study(folder.study, own=True).exhibits if (folder.study / "study.yaml").is_file() else ()


def exhibit_inputs(exhibits: Iterable[Exhibit]) -> ExhibitInputs:
    views = [view for exhibit in exhibits for view in exhibit.views]
    comparisons = [view for view in views if view.kind in ("ratio", "faster")]
    peaks = [(view.metric, view.over) for view in views if view.kind == "peak" or view.over]
    return ExhibitInputs(
        compared_metrics=tuple(dict.fromkeys(("rate.work", *(view.metric for view in comparisons if not view.over)))),
        peaks=tuple(dict.fromkeys(peaks)),
    )
