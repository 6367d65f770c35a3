"""The universal scalability law: how a rate grows with the number of clients, and why it stops to grow.

X(n) = unit * n / (1 + contention * (n - 1) + coherency * n * (n - 1)). Contention is the share of the work that is done
one after the other, coherency the share that every client costs every other (N. Gunther, Guerrilla Capacity Planning).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np

# The law has three parameters: fewer numbers of clients fit it exactly and prove nothing.
FEWEST: Final = 4


@dataclass(frozen=True)
class ScalabilityFit:
    """`unit`: the rate of one client. `error`: the greatest difference of a rate from the law, as a share of it."""

    unit: float
    contention: float
    coherency: float
    error: float

    def rate(self, clients: float) -> float:
        other = clients - 1
        return self.unit * clients / (1 + self.contention * other + self.coherency * clients * other)

    @property
    def best_clients(self) -> float:
        """Where the rate is highest; infinite if it never falls."""
        return sqrt(max(0.0, 1 - self.contention) / self.coherency) if self.coherency else inf

    @property
    def limit(self) -> float:
        """The highest rate of any number of clients; infinite if it grows without an end."""
        if self.coherency:
            return self.rate(max(1.0, self.best_clients))
        return self.unit / self.contention if self.contention else inf


def fit_scalability(rates: Mapping[float, float]) -> ScalabilityFit | None:
    """The law that fits the rates by number of clients best; None if there are fewer than FEWEST.

    Least squares of the relative errors of n / X(n), which is linear in the parameters. A fit without a
    negative parameter is chosen: it leaves some of them out if need be.
    """
    known = {clients: rate for clients, rate in rates.items() if rate > 0}
    if len(known) < FEWEST:
        return None
    clients, measured = np.array([*known]), np.array([*known.values()])
    columns = np.stack([np.ones_like(clients), clients - 1, clients * (clients - 1)], axis=1)
    weighted = columns * (measured / clients)[:, None]
    fits = (_least_squares(weighted, used) for used in ((0, 1, 2), (0, 1), (0, 2), (0,)))
    valid = [values for values in fits if values[0] > 0 and min(values) >= 0]
    best = min(valid, key=lambda values: float(np.sum((weighted @ values - 1) ** 2)))
    unit = 1 / float(best[0])
    return ScalabilityFit(
        unit, float(best[1]) * unit, float(best[2]) * unit, float(np.max(np.abs(1 / (weighted @ best) - 1)))
    )


def _least_squares(weighted: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", used: tuple[int, ...]) -> np.ndarray:
    values = np.zeros(weighted.shape[1])
    values[[*used]] = np.linalg.lstsq(weighted[:, used], np.ones(len(weighted)), rcond=None)[0]
    return values
