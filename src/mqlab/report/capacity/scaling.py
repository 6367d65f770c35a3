"""Scaling in a report: how the rate grows with the number of clients, by the universal scalability law.

For every sweep over a number of clients as fast as the system takes messages, and for the rates that searches found.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final, NamedTuple

from mqlab.report.capacity.trials import PointSearch
from mqlab.report.data.run_results import RunResults
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Block, Cell, Row, Table, number, row
from mqlab.study import Point
from mqlab.study.capacity.scalability import ScalabilityFit, fit_scalability

# Parameters that are numbers of clients.
_CLIENTS: Final = ("producers", "consumers", "requesters", "responders", "clients", "threads")
_HEAD: Final = (
    "System",
    "Over",
    "At",
    "Rate",
    "Rate of one",
    "Contention",
    "Coherency",
    "Highest rate",
    "With",
    "Error",
)
_NOTE: Final = (
    "The universal scalability law, rate(n) = n x rate of one / (1 + contention (n - 1) + coherency n (n - 1)), fitted "
    "by least squares. Contention: the share of the work that is done one after the other. Coherency: the share that "
    "each client costs each other one; with it, the rate falls beyond the number under With. Error: the greatest "
    "difference of a rate from the law."
)


class SweptRate(NamedTuple):
    """The rate of a system at a point. `kind`: what sort of rate; `place`: the scenario, where a table has several."""

    system: str
    place: str
    kind: str
    parameters: Mapping[str, str]
    rate: float


def scaling_blocks(found: Sequence[PointSearch]) -> Iterator[Block]:
    """A table, if the searches of a scenario differ in a number of clients, with enough of them."""
    rates = [rate for search in found for rate in _searched(search)]
    if table := _table(rates):
        yield table


def scaling_table(results: RunResults) -> Table | None:
    """Of all scenarios without a search."""
    points = [point for point in results.points if point.loop == "closed" and not _find(results, point)]
    return _table(
        [rate for system in results.systems for point in points for rate in _run(results, system.name, point)]
    )


def _find(results: RunResults, point: Point) -> bool:
    scenario = results.study.scenarios.get(point.scenario)
    return scenario is not None and scenario.find is not None


def _searched(search: PointSearch) -> Iterator[SweptRate]:
    place = (search.system, "")
    if search.capacity.status == "found" and search.capacity.rate:
        yield SweptRate(*place, "within the goal", search.point.parameters, search.capacity.rate)
    if search.peak:
        yield SweptRate(*place, "closed loop", search.point.parameters, search.peak)


def _run(results: RunResults, system: str, point: Point) -> Iterator[SweptRate]:
    """Without rates of runs that were all flagged, and of those that the lab bounded."""
    measure = results.measure(system, point, "rate.work")
    if measure is not None and measure.quiet is not False and not measure.lower_bound:
        yield SweptRate(system, point.scenario, "closed loop", point.parameters, measure.value)


def _table(rates: Sequence[SweptRate]) -> Table | None:
    rows = list(_rows(rates))
    title = f"Scaling with the number of clients, {MEASURED}"
    return Table(title, _HEAD, tuple(rows), (_NOTE,), folded=len(rows) > formatting.LONG) if rows else None


def _rows(rates: Sequence[SweptRate]) -> Iterator[Row]:
    for series in _grouped(rates, lambda rate: rate[:3]):
        swept = _swept(series)
        names = [name for name in _CLIENTS if name in swept and all(name in rate.parameters for rate in series)]
        for place, name in enumerate(names):
            # Numbers of clients that grow together are one sweep, under the first name.
            if any(_advance_in_step(series, earlier, name) for earlier in names[:place]):
                continue
            together = [name, *(other for other in names[place + 1 :] if _advance_in_step(series, name, other))]
            others = [other for other in swept if other not in together]
            for sweep in _grouped(series, partial(_place, names=others)):
                fit = fit_scalability({float(rate.parameters[name]): rate.rate for rate in sweep})
                if fit is not None:
                    yield _row(sweep[0], name, _place(sweep[0], others), fit)


def _swept(series: Sequence[SweptRate]) -> list[str]:
    """The parameters in which they differ, without the requesters of clients with threads: their product."""
    parameters = [rate.parameters for rate in series]
    differing = [name for name in parameters[0] if len({one.get(name) for one in parameters}) > 1]
    return [name for name in differing if name != "requesters" or "clients" not in parameters[0]]


def _grouped(rates: Sequence[SweptRate], key: Callable[[SweptRate], Hashable]) -> Collection[list[SweptRate]]:
    groups: dict[Hashable, list[SweptRate]] = {}
    for rate in rates:
        groups.setdefault(key(rate), []).append(rate)
    return groups.values()


def _place(rate: SweptRate, names: Sequence[str]) -> str:
    """The scenario, and the values of these parameters."""
    return ", ".join(filter(None, (rate.place, *(f"{name}={rate.parameters.get(name)}" for name in names))))


def _advance_in_step(series: Sequence[SweptRate], one: str, other: str) -> bool:
    pairs = {(rate.parameters[one], rate.parameters[other]) for rate in series}
    return len(pairs) == len({first for first, _ in pairs}) == len({second for _, second in pairs})


def _row(first: SweptRate, name: str, place: str, fit: ScalabilityFit) -> Row:
    best = f"{fit.best_clients:,.0f}" if isfinite(fit.best_clients) else "any number"
    limit = formatting.number(fit.limit) if isfinite(fit.limit) else "without a limit"
    return row(
        Cell(first.system), Cell(name), Cell(place), Cell(first.kind),
        number(formatting.number(fit.unit)), number(f"{fit.contention:.3g}"), number(f"{fit.coherency:.3g}"),
        number(limit), number(best), number(f"{fit.error:.1%}"),
    )  # fmt: skip
