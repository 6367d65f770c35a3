"""Impacts, comparisons and peaks, beside the same arithmetic on plain arrays."""

import math

import numpy as np
import pytest

from mqlab.pipeline.exhibit_inputs import exhibit_inputs
from mqlab.study.statistics import t975
from pipeline.cases import COST, EXHIBITS, OTHER
from pipeline.intervals import half_width, paired_ratio
from table_rows import Row, Tables


def paired(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[float, float, float]:
    """The ratio with the ends of its interval."""
    logs = np.log(np.array(first) / np.array(second))
    half = t975(len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean()), math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def welch(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[float, float, float]:
    a, b = np.log(first), np.log(second)
    errors = [logs.var(ddof=1) / len(logs) for logs in (a, b)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(logs) - 1) for e, logs in zip(errors, (a, b), strict=True))
    middle, half = a.mean() - b.mean(), t975(math.floor(freedom)) * math.sqrt(sum(errors))
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)


def impact(tables: Tables, system: str, point: str, metric: str = "rate.received") -> Row:
    key = {"scenario": "cost", "system": system, "point": point, "metric": metric}
    (row,) = [row for row in tables["impacts"] if row.items() >= key.items()]
    return row


def comparison(tables: Tables, first: str, second: str, metric: str = "rate.received", **place: str) -> Row:
    key = {"first": first, "second": second, "metric": metric, "over": "", "parameters": ""} | place
    (row,) = [row for row in tables["comparisons"] if row.items() >= key.items()]
    return row


@pytest.mark.parametrize(("system", "counts"), [("embedded", COST), ("other", OTHER)])
def test_impact_of_runs_in_turns(tables: Tables, system: str, counts: dict[str, tuple[int, ...]]) -> None:
    row = impact(tables, system, "trace=low")
    ratio, low, high = paired(counts["low"], counts["off"])
    percents = [100 * (value - 1) for value in (ratio, low, high)]
    assert [row["value"], row["low"], row["high"]] == pytest.approx(percents)
    assert row["ci95"] == pytest.approx(percents[2] - percents[0]), "the upper half is the wider one"
    assert (row["base"], row["paired"], row["runs"]) == ("trace=off", True, 3)


def test_impact_where_a_repetition_is_missing(tables: Tables) -> None:
    """The others are still pairs."""
    row = impact(tables, "embedded", "trace=high")
    expected = [100 * (value - 1) for value in paired(COST["high"], COST["off"][:2])]
    assert [row["value"], row["low"], row["high"]] == pytest.approx(expected)
    assert (row["paired"], row["runs"]) == (True, 2)


def test_every_positive_figure_of_a_point_with_a_base_has_its_impact(tables: Tables) -> None:
    rows = [row for row in tables["impacts"] if row["system"] == "embedded" and row["point"] == "trace=low"]
    assert {row["metric"] for row in rows} == {"rate.work", "rate.received", "rate.sent", "bytes.received", "copies"}
    assert {row["scenario"] for row in tables["impacts"]} == {"cost"}
    assert "trace=off" not in {row["point"] for row in tables["impacts"]}


def test_systems_beside_each_other_both_ways(tables: Tables) -> None:
    row = comparison(tables, "embedded", "other", scenario="cost", point="trace=low")
    ratio, low, high = paired_ratio(tables, ("cost", "trace=low"), "embedded", "other")
    assert ratio == pytest.approx(paired(COST["low"], OTHER["low"])[0])
    assert [row["ratio"], row["low"], row["high"]] == pytest.approx([ratio, low, high])
    assert row["ci95"] == pytest.approx(high - ratio)
    assert (row["paired"], row["runs"], row["faster"]) == (True, 3, "other")
    percents = [100 * (1 / value - 1) for value in (ratio, high, low)]
    assert [row["percent_faster"], row["percent_low"], row["percent_high"]] == pytest.approx(percents)
    turned = comparison(tables, "other", "embedded", scenario="cost", point="trace=low")
    assert turned["ratio"] == pytest.approx(1 / ratio)
    for column in ("faster", "percent_faster", "percent_low", "percent_high"):
        assert turned[column] == pytest.approx(row[column])


def test_only_what_both_ran_and_what_the_exhibits_show_is_compared(tables: Tables) -> None:
    plain = [row for row in tables["comparisons"] if not row["over"]]
    assert {row["metric"] for row in plain} == {"rate.work", "rate.received"}, "all latencies of these runs are zero"
    assert {row["point"] for row in plain if row["scenario"] == "cost"} == {"trace=off", "trace=low"}


def test_peaks_and_where_they_are(tables: Tables) -> None:
    found = {
        (row["system"], row["over"], row["parameters"]): (row["value"], row["at"], row["point"])
        for row in tables["peaks"]
    }
    both, one, two = "clients, threads", '{"clients":"1","size":"1KiB"}', '{"clients":"2","size":"1KiB"}'
    # Means of two runs, the second with ten messages more, in two seconds.
    assert found["embedded", both, '{"size":"1KiB"}'] == (
        152.5, "clients=1, threads=2", "size=1KiB, clients=1, threads=2"
    )  # fmt: skip
    assert found["other", both, '{"size":"1KiB"}'][:2] == (202.5, "clients=2, threads=1")
    assert found["embedded", both, '{"size":"2KiB"}'][:2] == (27.5, "clients=1, threads=1")
    assert found["embedded", "threads", one][:2] == (152.5, "threads=2")
    assert found["embedded", "threads", two][:2] == (127.5, "threads=2")
    assert len(found) == len(tables["peaks"]) == 2 * (2 + 4)
    row = tables["peaks"][0]
    assert (row["scenario"], row["metric"], row["unit"], row["runs"], row["bound_by"]) == (
        "grid", "rate.received", "messages/s", 2, None,
    )  # fmt: skip
    assert row["ci95"] == pytest.approx(half_width(tables, ("grid", row["point"]), row["system"]))


def test_peaks_of_two_systems_are_compared_wherever_they_are(tables: Tables) -> None:
    place = {"over": "clients, threads", "parameters": '{"size":"1KiB"}', "point": "", "scenario": "grid"}
    row = comparison(tables, "embedded", "other", **place)
    assert [row["ratio"], row["low"], row["high"]] == pytest.approx(welch((300, 310), (400, 410)))
    assert (row["paired"], row["faster"]) == (False, "other")
    same = comparison(
        tables, "embedded", "other", **(place | {"over": "threads", "parameters": '{"clients":"1","size":"2KiB"}'})
    )
    assert [same["ratio"], same["low"], same["high"]] == pytest.approx(paired((50, 60), (40, 50)))
    assert same["paired"]


def test_what_exhibits_ask_for() -> None:
    found = exhibit_inputs(EXHIBITS)
    assert found.compared_metrics == ("rate.work", "rate.received", "latency.max")
    assert found.peaks == (("rate.received", ("threads",)), ("rate.received", ("clients", "threads")))
