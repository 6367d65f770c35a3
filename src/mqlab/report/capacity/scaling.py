"""Scaling in a report: how the rate grows with the number of clients, by the universal scalability law."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

from mqlab.report.capacity.trials import PointSearch
from mqlab.report.render import formatting
from mqlab.report.render.content import MEASURED, Block, Cell, Row, Table, number, row
from mqlab.study.capacity.scalability import ScalabilityFit, fit_scalability

# Parameters that are numbers of clients.
_CLIENTS: Final = ("producers", "consumers", "requesters", "responders", "clients", "threads")


def scaling_blocks(found: Sequence[PointSearch]) -> Iterator[Block]:
    """A table, if the searches of a scenario differ in a number of clients, with enough of them."""
    rows = [row for name in _CLIENTS for row in _rows(found, name)]
    if rows:
        head = ("System", "Over", "Rate", "Rate of one", "Contention", "Coherency", "Highest rate", "At", "Error")
        notes = (
            "The universal scalability law, rate(n) = n x rate of one / (1 + contention (n - 1) + coherency n (n - 1)),"
            " fitted by least squares. Contention: the share of the work that is done one after the other. Coherency: "
            "the share that each client costs each other one; with it, the rate falls beyond the number under At. "
            "Error: the greatest difference of a rate from the law.",
        )
        yield Table(f"Scaling with the number of clients, {MEASURED}", head, tuple(rows), notes)


def _rows(found: Sequence[PointSearch], name: str) -> Iterator[Row]:
    others = [one for one in _CLIENTS if one != name]
    for system in dict.fromkeys(search.system for search in found):
        own = [search for search in found if search.system == system and name in search.point.parameters]
        # Numbers of clients that grow together are one sweep, under the first name.
        if any(_values(own, one) == _values(own, name) and _before(one, name) for one in others):
            continue
        for kind, rates in (("within the goal", _capacities(own, name)), ("closed loop", _peaks(own, name))):
            if (fit := fit_scalability(rates)) is not None:
                yield _row(system, name, kind, fit)


def _values(found: Sequence[PointSearch], name: str) -> list[str | None]:
    return [search.point.parameters.get(name) for search in found]


def _before(one: str, name: str) -> bool:
    return _CLIENTS.index(one) < _CLIENTS.index(name)


def _capacities(found: Sequence[PointSearch], name: str) -> dict[float, float]:
    return {
        float(search.point.parameters[name]): search.capacity.rate
        for search in found if search.capacity.status == "found" and search.capacity.rate
    }  # fmt: skip


def _peaks(found: Sequence[PointSearch], name: str) -> dict[float, float]:
    return {float(search.point.parameters[name]): search.peak for search in found if search.peak}


def _row(system: str, name: str, kind: str, fit: ScalabilityFit) -> Row:
    best = f"{fit.best_clients:,.0f}" if isfinite(fit.best_clients) else "any number"
    limit = formatting.number(fit.limit) if isfinite(fit.limit) else "without a limit"
    return row(
        Cell(system), Cell(name), Cell(kind), number(formatting.number(fit.unit)), number(f"{fit.contention:.3g}"),
        number(f"{fit.coherency:.3g}"), number(limit), number(best), number(f"{fit.error:.1%}"),
    )  # fmt: skip
