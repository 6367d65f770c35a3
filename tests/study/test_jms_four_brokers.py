"""The built-in study says what the paper says: its scenarios, its figures, and where its sentences and figures part."""

import pytest

from mqlab.study import Point, Study, built_in_studies, estimate, load_study
from mqlab.study.language.expression import parse
from study.conftest import published_measures

# Appendix 3: destinations, persistent, body, producers, consumers, messages a transaction.
SUMMARY = {
    "A": ("topic", 1, False, 12, 1, 1, 0),
    "B": ("topic", 1, False, 12, 1, 15, 0),
    "C": ("topic", 1, False, 12, 15, 15, 0),
    "D": ("topic", 1, False, 1024, 1, 1, 0),
    "E": ("topic", 1, False, 1024, 1, 15, 0),
    "F": ("topic", 1, False, 1024, 15, 15, 0),
    "G": ("queue", 40, True, 1024, 40, 40, 0),
    "H": ("queue", 40, True, 1024, 40, 40, 10),
}


@pytest.fixture(scope="module")
def study() -> Study:
    return load_study("jms-four-brokers")


def row(point: Point) -> tuple[str, int, bool, int, int, int, int]:
    destinations = (point.domain, point.destinations, point.persistent)
    return (*destinations, point.size, point.producers, point.consumers, point.transaction)


@pytest.mark.parametrize("scale", ["quick", "standard", "full"])
def test_the_scenarios_of_appendix_3_at_every_scale(study: Study, scale: str) -> None:
    assert {point.scenario: row(point) for point in study.points(scale, [*SUMMARY])} == SUMMARY


def test_persistent_producers_wait_for_every_confirmation(study: Study) -> None:
    sending = {point.scenario: (point.send, point.batch) for point in study.points("full")}
    assert sending["G"] == ("confirmed", 1)
    assert sending["H"] == ("confirmed", 1)  # of each transaction
    assert sending["A"] == ("free", 1)


def test_scales(study: Study) -> None:
    assert {point.phases.measure for point in study.points("full", [*SUMMARY])} == {1000.0}
    for scale, most in (("quick", 90), ("standard", 30 * 60)):
        budget = study.budget(scale)
        assert budget is not None
        assert estimate(study.points(scale)).least_seconds < budget <= most
    assert study.budget("full") is None


def test_the_published_values(study: Study) -> None:
    measures = published_measures(study)
    assert len(study.published) == 37
    assert len(measures) == 4 * 8
    assert measures["HornetQ 2.1.1", "G", "rate.received"] == 9067
    assert {system for system, _, _ in measures} == set(study.systems_published) == set(study.settings)


def test_published_parameters_are_those_of_the_scenarios(study: Study) -> None:
    points = {point.scenario: point for point in study.points("full")}
    for value in study.published:
        if value.table == "Appendix 2: Raw data":
            point, printed = points[value.scenario], value.parameters
            assert (int(printed["size"]), int(printed["producers"])) == (point.size, point.producers)
            assert (int(printed["consumers"]), printed["domain"]) == (point.consumers, point.domain)
            assert int(printed.get("tx_size", 0)) == point.transaction


def test_the_exhibits_of_the_paper(study: Study) -> None:
    assert [exhibit.form for exhibit in study.exhibits] == [
        "setup", "diagram", "bars", "table", "settings", "matrix", "summary"
    ]  # fmt: skip


def test_every_scenario_is_in_a_claim(study: Study) -> None:
    checked = [parse(claim.check) for claim in study.claims if claim.check]
    assert {named.scenario for expression in checked for named in expression.references()} == set(SUMMARY)
    assert all(claim.check or claim.not_testable for claim in study.claims)


def test_it_can_be_found_by_its_name() -> None:
    assert "jms-four-brokers" in built_in_studies()
    for name in built_in_studies():
        assert load_study(name).id == name
