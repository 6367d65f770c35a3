"""The colour of each system, the same in every chart of a report."""

from mqlab.report.charts.drawing import PALETTE
from mqlab.report.data.pairing import pair_name, pairs
from mqlab.report.data.run_results import RunResults


def pair_colours(results: RunResults) -> dict[str, str]:
    """The colours of pairs of published and measured systems, by their names.

    The first pair of a measured system has that system's colour; the others have the colours that no system has.
    """
    numbers = {system.name: number for number, system in enumerate(results.systems)}
    spare = len(numbers)
    colours = {}
    for pair in pairs(results):
        number = numbers.pop(pair.measured, None) if pair.measured is not None else None
        if number is None:
            number, spare = spare, spare + 1
        colours[pair_name(results, pair)] = PALETTE[number % len(PALETTE)]
    return colours


def line_colours(results: RunResults, keys: list[str]) -> dict[str, str]:
    """The colours of the lines of a chart: those of the systems, or of their own where a line is a setting."""
    known = pair_colours(results)
    if all(key in known for key in keys):
        return {key: known[key] for key in keys}
    return {key: PALETTE[number % len(PALETTE)] for number, key in enumerate(keys)}
