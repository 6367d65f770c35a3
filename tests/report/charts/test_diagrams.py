"""Diagrams drawn from a point's parameters."""

import xml.etree.ElementTree as ET

import pytest

from mqlab.report.charts.diagrams import point_diagram, setup_diagram
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


FLOWS = """
study: flows
title: Flows
defaults: {queues: 1, message: {size: 2KiB}}
scenarios:
  CC: {pattern: request-reply, clients: 6, threads: 5, responders: 4, preload: 1000}
  BB: {pattern: request-reply, requesters: 1, responders: 1, topology: bindings}
  DQ: {pattern: request-reply, requesters: 2, responders: 3, topology: distributed, message: {persistent: yes}}
  S: {producers: 1, consumers: 0, load: send, messages: 100}
"""


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("flows") / "flows.yaml"
    file.write_text(FLOWS)
    return {point.scenario: point_diagram(point) for point in load_study(file).points("full")}


@pytest.mark.parametrize(
    ("scenario", "words", "lines"),
    [
        ("CC", ["requester 1 to 30", "request queue", "reply queue", "responder 1 to 4", "1 pair of queues"], 4),
        ("CC", ["2 kiB, non persistent; 6 connections; 1,000 more wait on the queue"], 4),
        ("BB", ["requester", "responder", "all in one process (bindings)"], 4),
        ("DQ", ["broker A", "broker B", "to B: transmission", "to A: transmission", "channel"], 6),
        ("S", ["no consumers", "2 kiB, non persistent; only sending is measured"], 1),
    ],
)
def test_requests_bindings_and_two_brokers(flows: dict[str, str], scenario: str, words: list[str], lines: int) -> None:
    assert set(words) <= set(texts(flows[scenario]))
    assert arrows(flows[scenario]) == lines
