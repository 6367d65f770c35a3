"""Systems compared point by point; claims against their limits; the colour of a system."""

from mqlab.report.charts.drawing import PALETTE
from mqlab.report.claims.limits import limits_figure
from mqlab.report.claims.verdicts import judge
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.answer import scenario_answers
from mqlab.report.exhibits.colours import line_colours, pair_colours
from mqlab.report.exhibits.compare import comparison_table, rate_against_latency
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns, add_system


def with_other(made: SyntheticRuns) -> SyntheticRuns:
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    add_system(made, "other", 0.5)
    return made


def test_a_ratio_that_may_be_one_names_no_better_system(small: SyntheticRuns, write: Write) -> None:
    with_other(small)
    small.comparison("A", "", "embedded", "other", "rate.received", 2.0)
    small.comparison("H", "", "embedded", "other", "rate.received", 1.01)
    table = comparison_table(RunResults.of(write(small)))
    assert table is not None
    first, second = ([cell.full_text for cell in row.cells] for row in table.rows)
    assert first == ["A", "rate at the consumers", "2 \u00d7 (1.94 to 2.06)", "embedded", "100 %", "2"]
    assert second[3] == "not certain"


def test_one_system_is_not_compared(small: SyntheticRuns, write: Write) -> None:
    assert comparison_table(RunResults.of(write(small))) is None


def test_rate_against_latency_has_a_mark_for_each_point_and_system(small: SyntheticRuns, write: Write) -> None:
    figure = rate_against_latency(RunResults.of(write(with_other(small))))
    assert figure is not None
    assert figure.spec is not None
    (rows,) = figure.spec["datasets"].values()
    assert {(row["series"], row["name"], row["latency"]) for row in rows} == {
        (system, scenario, 0.0041) for system in ("embedded", "other") for scenario in "AH"
    }


def test_claims_against_their_limits(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(made))
    judged = judge(results)
    figure = limits_figure(results, judged)
    assert figure is not None
    assert figure.spec is not None
    rows = {row["name"]: row for row in figure.spec["datasets"]["rows0"]}
    (verdict,) = (v for v in judged if v.claim == "transactions-raise" and v.basis == "measured")
    assert verdict.measured is not None
    assert verdict.low is not None
    row = rows["transactions-raise"]
    assert (row["ratio"], row["low"], row["verdict"]) == (verdict.measured, verdict.low, "holds")
    assert {row["verdict"] for row in rows.values()} <= {"holds", "refuted", "inconclusive"}


def test_a_few_scenarios_have_a_sentence_each(small: SyntheticRuns, made: SyntheticRuns, write: Write) -> None:
    for row in with_other(small).rows["measures"]:
        row["bound_by"] = "broker"
    found = scenario_answers(RunResults.of(write(small)))
    assert [text.partition(" (")[0] for text in found] == [
        f"Scenario {name}: embedded is ahead: its rate at the consumers is 2 times" for name in "AH"
    ]
    assert scenario_answers(RunResults.of(write(with_other(made)))) == (), "eight scenarios are a table"


def test_a_system_has_one_colour(made: SyntheticRuns, write: Write) -> None:
    results = RunResults.of(write(with_other(made)))
    colours = pair_colours(results)
    assert (colours["embedded"], colours["other"]) == PALETTE[:2]
    assert not {colours[name] for name in results.study.systems_published} & {*PALETTE[:2]}
    assert line_colours(results, ["other"]) == {"other": PALETTE[1]}
    assert line_colours(results, ["trace=off", "trace=low"]) == {"trace=off": PALETTE[0], "trace=low": PALETTE[1]}
