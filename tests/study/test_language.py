"""Requests and replies, fixed work, settings, bases, and lists in step: from the file to the points."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mqlab.study import MetricView, Point, Study, estimate, load_study

Write = Callable[..., Path]

HEAD = "study: mine\ntitle: Mine\n"
ASKING = "pattern: request-reply, queues: 1, message: {size: 2KiB}"
SENDING = "queues: 1, producers: 1, consumers: 1, message: {size: 1KiB}"


def study(write: Write, scenario: str, rest: str = "") -> Study:
    return load_study(write(f"{HEAD}scenarios:\n  A: {{{scenario}}}\n{rest}"))


def points(write: Write, scenario: str, rest: str = "", scale: str = "full") -> list[Point]:
    return study(write, scenario, rest).points(scale)


def test_requesters_wait_for_each_reply(write: Write) -> None:
    (point,) = points(write, f"{ASKING}, requesters: 3, responders: 2")
    assert (point.pattern, point.requesters, point.responders, point.clients) == ("request-reply", 3, 2, 0)
    assert (point.producers, point.consumers, point.batch, point.work) == (0, 0, 1, "rate.round_trips")


def test_clients_with_threads_are_requesters(write: Write) -> None:
    found = points(write, f"{ASKING}, clients: [1, 6], threads: [1, 15], responders: 4")
    assert [(point.clients, point.requesters) for point in found] == [(1, 1), (1, 15), (6, 6), (6, 90)]
    assert found[-1].name == "clients=6, threads=15"
    assert found[-1].parameters["requesters"] == "90"
    (alone,) = points(write, f"{ASKING}, clients: 6, responders: 4")
    assert (alone.clients, alone.requesters) == (6, 6)


def test_requesters_take_the_place_of_clients(write: Write) -> None:
    text = f"{HEAD}defaults: {{clients: 2, threads: 5}}\nscenarios:\n  A: {{{ASKING}, requesters: 3, responders: 1}}\n"
    (point,) = load_study(write(text)).points("full")
    assert (point.clients, point.requesters) == (0, 3)


def test_every_parameter_is_shown_swept_or_not(write: Write) -> None:
    first, _ = points(write, f"{SENDING}, settings: {{trace: [off, low], queue_limit: 1MB}}, client_cpu: 75%")
    assert first.name == "trace=off"
    assert first.settings == {"trace": "off", "queue_limit": "1MB"}
    expected = {
        "pattern": "one-way", "queues": "1", "producers": "1", "consumers": "1", "size": "1KiB", "persistent": "no",
        "acknowledge": "auto", "transaction": "none", "selector": "none", "durable": "no", "prefetch": "auto",
        "load": "both", "messages": "none", "preload": "0", "send": "free", "batch": "1", "rate": "max",
        "think": "none", "faults": "none",
        "consume_rate": "max", "connections": "each", "topology": "client", "trace": "off", "queue_limit": "1MB",
        "client_cpu": "75%", "warmup": "5s", "measure": "30s", "drain": "30s",
    }  # fmt: skip
    assert first.parameters == expected


def test_a_fixed_amount_of_work_has_no_phases_but_draining(write: Write) -> None:
    rest = "defaults: {phases: {measure: 9s}}\nscales: {quick: {repeat: {least: 2, most: 3}}}\n"
    (point,) = points(write, f"{SENDING}, messages: 100", rest, "quick")
    assert (point.messages, point.phases.warmup, point.phases.measure, point.phases.drain) == (100, 0.0, 0.0, 30.0)
    assert "measure" not in point.parameters
    expected = estimate([point])
    assert (expected.fixed_runs, expected.least_runs, expected.most_seconds) == (3, 2, 0.0)


@pytest.mark.parametrize(
    ("load", "work"), [("both", "rate.received"), ("send", "rate.sent"), ("receive", "rate.received")]
)
def test_what_a_point_is_about(write: Write, load: str, work: str) -> None:
    (point,) = points(write, f"{SENDING}, messages: 10, load: {load}")
    assert point.work == work


def test_nobody_needs_to_receive_what_is_only_sent(write: Write) -> None:
    (point,) = points(write, "topics: 1, producers: 1, consumers: 0, load: send, message: {size: 1KiB}")
    assert (point.consumers, point.load) == (0, "send")


def test_the_rest_of_the_language_reaches_the_point(write: Write) -> None:
    text = (
        "topics: 1, producers: 1, consumers: 1, message: {size: 1KiB}, session: {acknowledge: dups_ok}, durable: yes,"
        " selector: \"colour = 'red'\", prefetch: 10, consume_rate: 5k/s, preload: 7, topology: bindings"
    )
    (point,) = points(write, text)
    assert (point.acknowledge, point.durable, point.selector) == ("dups_ok", True, "colour = 'red'")
    assert (point.prefetch, point.consume_rate, point.preload, point.topology) == (10, 5000.0, 7, "bindings")
    assert Point.from_json(point.to_json()) == point


def test_lists_in_step(write: Write) -> None:
    text = f"{SENDING}, rate: [max, 5k/s], batch: [1, 2], connections: [each, shared], together: [[rate, batch]]"
    assert [point.name for point in points(write, text)] == [
        "batch=1, rate=max, connections=each",
        "batch=1, rate=max, connections=shared",
        "batch=2, rate=5k/s, connections=each",
        "batch=2, rate=5k/s, connections=shared",
    ]


def test_a_value_may_come_twice_among_lists_in_step(write: Write) -> None:
    text = f"{SENDING}, settings: {{trace: [off, low, off], api: [no, no, yes]}}, together: [[trace, api]]"
    assert [point.settings for point in points(write, text)] == [
        {"trace": "off", "api": "no"}, {"trace": "low", "api": "no"}, {"trace": "off", "api": "yes"},
    ]  # fmt: skip


def test_every_point_knows_its_base(write: Write) -> None:
    text = f"{SENDING}, batch: [1, 2], settings: {{trace: [off, low, high]}}, base: {{trace: off}}"
    assert [(point.name, point.base) for point in points(write, text)] == [
        ("batch=1, trace=off", None),
        ("batch=1, trace=low", "batch=1, trace=off"),
        ("batch=1, trace=high", "batch=1, trace=off"),
        ("batch=2, trace=off", None),
        ("batch=2, trace=low", "batch=2, trace=off"),
        ("batch=2, trace=high", "batch=2, trace=off"),
    ]


def test_a_scale_may_say_something_else_for_one_scenario(write: Write) -> None:
    text = (
        f"{HEAD}defaults: {{{SENDING}, rate: [1/s, 2/s]}}\nscenarios: {{A: {{}}, B: {{}}}}\n"
        "scales: {quick: {phases: {measure: 1s}, scenarios: {B: {rate: [2/s], phases: {warmup: 0s}}}}}\n"
    )
    found = load_study(write(text)).points("quick")
    assert [(point.label, point.phases.warmup, point.phases.measure) for point in found] == [
        ("A (rate=1/s)", 5.0, 1.0),
        ("A (rate=2/s)", 5.0, 1.0),
        ("B (rate=2/s)", 0.0, 1.0),
    ]


EXHIBITS = """exhibits:
  - table: T
    of: [A]
    where: {size: 1KiB, batch: [1, 2]}
    by: [batch]
    columns: [{value: rate.sent, as: Sent}, {ratio: rate.sent, over: [rate]}]
  - {lines: L, x: batch, by: [size], values: [rate.sent, {peak: cpu.broker, over: [size]}]}
  - {bars: B, of: [A], by: [scenario], value: rate.work}
  - {series: S, of: [A]}
"""


def test_exhibits_of_chosen_points(write: Write) -> None:
    text = "queues: 1, producers: 1, consumers: 1, message: {size: [1KiB, 2KiB]}, batch: [1, 2, 3]"
    declared = study(write, text, EXHIBITS)
    table, lines, bars, series = declared.exhibits
    assert table.views == (MetricView("value", "rate.sent", "Sent"), MetricView("ratio", "rate.sent", over=("rate",)))
    assert table.where == (("size", "1KiB"), ("batch", "1"), ("batch", "2"))
    assert [point.name for point in table.select_points(declared.points("full"))] == [
        "size=1KiB, batch=1",
        "size=1KiB, batch=2",
    ]
    assert (lines.x, lines.by, [each.kind for each in lines.views]) == ("batch", ("size",), ["value", "peak"])
    assert (bars.form, bars.by, bars.value, bars.each) == ("bars", ("scenario",), "rate.work", None)
    assert (series.form, series.of) == ("series", ("A",))


def test_stand_ins(write: Write) -> None:
    rest = 'systems: {Q 1: [], Q 2: []}\nstand_ins: {Q 2: "embedded:retrieval=scan"}\n'
    assert study(write, SENDING, rest).stand_ins == {"Q 2": "embedded:retrieval=scan"}


def test_successors(write: Write) -> None:
    rest = "systems: {Q 1: [], Q 2: []}\nsuccessors: {Q 2: [q, r]}\n"
    assert study(write, SENDING, rest).successors == {"Q 2": ("q", "r")}
