"""The scalability law: its parameters come back from rates that follow it."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlab.study.capacity.scalability import ScalabilityFit, fit_scalability

CLIENTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


@given(st.floats(10, 1e6), st.floats(0, 0.9), st.floats(0, 0.05))
def test_the_parameters_come_back(unit: float, contention: float, coherency: float) -> None:
    law = ScalabilityFit(unit, contention, coherency, 0.0)
    found = fit_scalability({clients: law.rate(clients) for clients in CLIENTS})
    assert found is not None
    assert found.unit == pytest.approx(unit, rel=1e-6)
    assert found.contention == pytest.approx(contention, abs=1e-6)
    assert found.coherency == pytest.approx(coherency, abs=1e-7)
    assert found.error < 1e-6


@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=6))
def test_no_parameter_is_negative(rates: list[float]) -> None:
    found = fit_scalability(dict(zip(CLIENTS, rates, strict=False)))
    assert found is not None
    assert min(found.contention, found.coherency) >= 0
    assert found.unit > 0
    assert found.limit > 0


def test_the_highest_rate() -> None:
    law = ScalabilityFit(1000.0, 0.05, 0.001, 0.0)
    assert law.best_clients == pytest.approx(30.8, rel=0.01)
    assert law.limit == pytest.approx(max(law.rate(n) for n in range(1, 100)), rel=0.001)
    assert ScalabilityFit(1000.0, 0.1, 0.0, 0.0).limit == 10_000
    assert ScalabilityFit(1000.0, 0.0, 0.0, 0.0).limit == inf


def test_three_numbers_of_clients_prove_nothing() -> None:
    assert fit_scalability({1: 10.0, 2: 19.0, 4: 33.0, 8: 0.0}) is None
