"""Diagrams drawn from a point's parameters."""

import xml.etree.ElementTree as ET

import pytest

from mqlab.report.diagrams import point_diagram, setup_diagram
from mqlab.study import load_study

POINTS = {point.scenario: point for point in load_study("jms-four-brokers").points("quick")}


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(picture).iter() if element.tag.endswith("text")]


def arrows(picture: str) -> int:
    return sum("marker-end" in element.attrib for element in ET.fromstring(picture).iter())


@pytest.mark.parametrize(
    ("scenario", "captions", "lines"),
    [
        ("A", ["1 producer", "1 topic", "1 consumer", "12 bytes, non persistent"], 2),
        ("B", ["1 producer", "1 topic", "15 consumers"], 4),
        ("F", ["15 producers", "1 topic", "15 consumers", "1 kiB, non persistent"], 6),
        ("G", ["40 producers", "40 queues", "40 consumers", "1 kiB, persistent"], 6),
        ("H", ["1 kiB, persistent, transactions of 10"], 6),
    ],
)
def test_roles_and_destinations(scenario: str, captions: list[str], lines: int) -> None:
    picture = point_diagram(POINTS[scenario])
    assert set(captions) <= set(texts(picture))
    assert arrows(picture) == lines


def test_each_pair_of_g_has_a_queue_of_its_own() -> None:
    shown = texts(point_diagram(POINTS["G"]))
    assert {"producer 40", "queue 40", "consumer 40", "\u22ee"} <= set(shown)


def test_setup_holds_its_names_as_text() -> None:
    assert "<b>" in texts(setup_diagram([("one machine", ("producers", "<b>", "consumers"))]))
