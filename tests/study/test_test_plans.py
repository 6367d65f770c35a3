"""Four built-in studies have the scenarios, sweeps and procedures of their test plans."""

from itertools import product

import pytest

from mqlab.study import Point, RepetitionRule, Study, load_study
from mqlab.study.language.expression import parse


def points(name: str, scale: str = "full") -> list[Point]:
    """Of the study's own scenarios; `open-loop` is the lab's."""
    return [point for point in load_study(name).points(scale) if point.scenario != "open-loop"]


def test_sun_and_ibm_have_the_25_tests_of_appendix_b() -> None:
    found = {point.scenario: point for point in points("sunmq-wmq-2003")}
    assert list(found) == [*(f"Q{n}" for n in range(1, 13)), *(f"T{n}" for n in range(1, 14))]
    loads = {"S": "send", "R": "receive", "SR": "both"}
    for value in load_study("sunmq-wmq-2003").published:
        if value.table != "Appendix B":
            continue
        point, printed = found[value.scenario], value.parameters
        assert (point.domain, point.load) == (printed["domain"], loads[printed["role"]])
        assert (point.size, point.messages) == (int(printed["size"]), int(printed["messages"]))
        assert point.persistent == (printed["persistent"] == "yes")
        assert bool(point.selector) == (printed["selector"] == "yes")
        assert point.durable == printed.get("durable", "no").startswith("yes")
        assert printed["ack"] in ("n/a", point.acknowledge)
        assert point.repeat.until == RepetitionRule("sigma2", 0.05)


def test_a_persistent_sender_waits_for_its_confirmation() -> None:
    for name in ("sunmq-wmq-2003", "sonicmq-mqseries"):
        assert {(point.persistent, point.send) for point in points(name)} == {(False, "free"), (True, "confirmed")}


def test_mqseries_and_msmq_have_the_whole_grid() -> None:
    found = points("mqseries-msmq-2000")
    sizes = (100, 512, 1024, 5120, 10240, 20480, 30720, 40960, 65536)
    cells = {(point.size, point.clients, point.requesters) for point in found if point.scenario == "grid"}
    assert cells == {(s, c, c * t) for s, c, t in product(sizes, range(1, 9), range(1, 16))}
    assert [point.preload for point in found if point.scenario == "preload"] == [0, 50, 100, 150, 200, 300, 500, 1000]
    preloaded = [point for point in found if point.scenario == "preload"]
    assert {(point.size, point.clients, point.requesters) for point in preloaded} == {(1024, 6, 6)}
    assert {point.base for point in preloaded} == {None, "preload=0"}
    assert {(point.phases.warmup, point.phases.measure) for point in found} == {(180.0, 300.0)}


def test_sonic_and_mqseries_have_the_32_rows_of_appendix_a() -> None:
    rows = [point for point in points("sonicmq-mqseries") if point.scenario != "flow-control"]
    assert len(rows) == 32
    clients = {(point.scenario, point.producers, point.consumers, point.destinations) for point in rows}
    assert clients == {
        ("bulk", 1, 1, 1), ("bulk", 100, 100, 100), ("bulk", 250, 250, 250), ("broker-services", 1, 50, 1),
        ("dispatch", 1, 50, 1), ("reporting", 50, 1, 1), ("auctions", 50, 50, 1), ("web", 50, 50, 1),
    }  # fmt: skip
    assert {point.size for point in rows} == {100, 1000}
    assert {(point.domain, point.persistent, point.durable) for point in rows} == {
        ("topic", False, False), ("topic", True, True), ("queue", False, False), ("queue", True, False),
    }  # fmt: skip
    assert {point.repeat.until for point in rows} == {RepetitionRule("spread", 0.01)}
    assert {point.client_cpu for point in rows} == {75.0}


def test_senders_outrun_the_receiver_of_the_flow_control_demonstration_at_every_scale() -> None:
    for scale in ("quick", "standard", "full"):
        ten, one = (point for point in points("sonicmq-mqseries", scale) if point.scenario == "flow-control")
        assert (ten.settings["queue_limit"], one.settings["queue_limit"]) == ("10MB", "1MB")
        assert (ten.producers, ten.consumers, ten.size) == (5, 1, 1000)
        assert ten.rate is not None
        assert ten.consume_rate is not None
        fills_after = 10_000_000 / ((ten.rate - ten.consume_rate) * ten.size)
        assert fills_after < ten.phases.measure / 1.5


def test_ibm_traces_every_level_and_every_number_of_pairs() -> None:
    found = points("ibmmq-943-trace")
    pairs = {(*p.settings.values(), p.persistent) for p in found if p.scenario == "pairs"}
    levels, counts = ("low", "medium", "high"), ("0", "1", "5", "10", "20", "40", "60")
    assert pairs == set(product(levels, counts, (True, False)))
    traced = [p for p in found if p.scenario == "activity" and p.requesters == 300 and p.persistent]
    assert [(p.settings["trace"], p.settings["api_trace"]) for p in traced] == [
        ("off", "no"), ("low", "no"), ("medium", "no"), ("high", "no"), ("off", "yes"),
    ]  # fmt: skip
    base = traced[0].name
    assert [p.base for p in traced] == [None, base, base, base, base]
    assert {p.scenario: p.topology for p in found if "monitoring" in p.settings} == {
        "RR-BB": "bindings", "RR-DQ-BB": "distributed", "RR-CC": "client",
    }  # fmt: skip
    assert {(p.size, p.requesters == p.responders) for p in found} == {(2048, True)}


def test_every_scale_of_the_traces_keeps_the_tabulated_loads() -> None:
    for scale in ("quick", "standard", "full"):
        found = points("ibmmq-943-trace", scale)
        assert {p.requesters for p in found if p.scenario == "pairs"} == {100}
        assert 300 in {p.requesters for p in found if p.scenario == "activity"}


@pytest.fixture(scope="module", params=["ibmmq-943-trace", "mqseries-msmq-2000", "sonicmq-mqseries", "sunmq-wmq-2003"])
def study(request: pytest.FixtureRequest) -> Study:
    return load_study(request.param)


def test_most_claims_can_be_judged_at_the_quick_scale(study: Study) -> None:
    """A claim about a cell that only longer scales run says so in its note."""
    quick = study.points("quick")
    checks = [(claim, parse(claim.check)) for claim in study.claims if claim.check]
    unjudged = [
        claim
        for claim, expression in checks
        if not all(any(named.matches(point) for point in quick) for named in expression.references())
    ]
    assert len(unjudged) <= len(checks) // 4
    assert all("scale" in (claim.note or "") for claim in unjudged), [claim.id for claim in unjudged]
