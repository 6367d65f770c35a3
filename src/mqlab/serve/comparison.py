"""The comparison of any two runs of the folder, as `mqlab compare BASE NEW` makes it."""

from mqlab.errors import MqlabError
from mqlab.events.folder import RunFolder
from mqlab.pipeline.measure_tables import check_measures
from mqlab.report.comparison.comparison import SystemComparison, compare
from mqlab.report.comparison.finished_runs import choose_systems, differing_machine, joined, run_differences
from mqlab.report.comparison.page import build
from mqlab.report.comparison.sentence import answer
from mqlab.report.data.run_results import RunResults
from mqlab.report.render import html


def comparison_answer(base: RunFolder, new: RunFolder) -> str:
    """The first sentence of the comparison. Raises MqlabError if the runs cannot be compared."""
    return answer(_compared(base, new))


def comparison_page(base: RunFolder, new: RunFolder) -> str:
    """The same as a page."""
    return html.render(build(_compared(base, new)))


def _compared(base: RunFolder, new: RunFolder) -> SystemComparison:
    if base.path == new.path:
        raise MqlabError("choose two different runs")
    for folder in (base, new):
        check_measures(folder)
    one, other = RunResults.of(base), RunResults.of(new)
    both, names = joined(one, other, choose_systems(one, other))
    notes = run_differences(one, other)
    if machines := differing_machine(one, other):
        notes.insert(0, f"The runs are of different machines: {machines}.")
    return compare(both, *names, notes=notes)
