"""The first sentence of a report: who is first and by how much."""

import random
import re
from math import exp

import pytest

from mqlab.report.claims.evaluation import format_interval
from mqlab.report.claims.values import MeasuredValues
from mqlab.report.claims.verdicts import judge, judge_on
from mqlab.report.comparison.comparison import compare
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.answer import answer, scenario_answers
from mqlab.report.render import html, markdown
from mqlab.report.render.json_document import as_json
from mqlab.report.render.page import build
from mqlab.study import Claim
from report.comparison.made_up import BASE, NEW, Values, at_a, results_of
from report.conftest import Write
from report.synthetic_runs import RATES, SyntheticRuns, add_system


def five_brokers(made: SyntheticRuns) -> SyntheticRuns:
    for name, factor in (("hornetq", 2.0), ("activemq", 0.5), ("openmq", 0.25), ("artemis", 1.5)):
        made.meta["systems"].append({"name": name, "version": "7", "settings": {}, "stamps": []})
        add_system(made, name, factor)
    for row in made.rows["measures"]:
        row["bound_by"] = "broker"
    return made


def of(made: SyntheticRuns, write: Write) -> str:
    results = RunResults.of(write(made))
    return answer(results, judge(results))


def test_who_is_first_and_by_how_much(made: SyntheticRuns, write: Write) -> None:
    assert of(five_brokers(made), write) == (
        "hornetq (in place of HornetQ 2.1.1) is first: its rate at the consumers is 1.33 times (1.33 to 1.34) that of "
        "artemis, the second, on geometric mean over the 8 points that all ran; its figure is the best at 8 of them."
    )


def rates_of_common_rounds(chance: random.Random, rounds: int = 6) -> tuple[Values, Values]:
    """Two systems in turns, at three points: rounds differ by 20 %, and the two systems in a round by 1 %."""
    base: dict[str, dict[str, list[float]]] = {}
    new: dict[str, dict[str, list[float]]] = {}
    for scenario in "ADG":
        shared = [0.2 * chance.gauss() for _ in range(rounds)]
        for side, factor in ((base, 1000.0), (new, 1050.0)):
            rates = [factor * exp(one + 0.01 * chance.gauss()) for one in shared]
            side[scenario] = {"rate.received": rates, "rate.work": rates}
    return base, new


def test_it_is_judged_like_a_comparison_and_a_claim() -> None:
    """By the rounds in which the two took turns: their common noise cancels."""
    rates = rates_of_common_rounds(random.Random(3))
    assert re.search(r"^new is first: .* is 1\.0\d times \(1\.0\d* to 1\.0\d*\)", answer(results_of(*rates), []))
    one_point = results_of(*({"A": side["A"]} for side in rates))
    (row,) = compare(one_point, BASE, NEW).rows
    check = f'rate.work[A] of "{NEW}" / rate.work[A] of "{BASE}" > 1'
    (verdict,) = judge_on(Claim(id="ahead", says="new is ahead", source="-", check=check), MeasuredValues(one_point))
    assert row.ratio is not None
    assert verdict.verdict == "holds"
    assert (verdict.measured, verdict.low, verdict.high) == (row.ratio.value, row.ratio.low, row.ratio.high)
    assert f"is {format_interval(row.ratio, ' times')} that of base" in answer(one_point, [])


def test_it_is_the_first_sentence_of_every_format(made: SyntheticRuns, write: Write) -> None:
    folder = write(five_brokers(made))
    results = RunResults.of(folder)
    page, sentence = build(results), answer(results, judge(results))
    assert page.answers[0] == as_json(folder)["answer"] == sentence
    assert markdown.render(page).splitlines()[2].startswith("hornetq (in place of HornetQ 2.1.1) is first")
    text = html.render(page)
    assert text.index("</h1>") < text.index("is first: its rate at the consumers is 1.33 times") < text.index("<dl")


def test_only_points_that_all_systems_ran_count(made: SyntheticRuns, write: Write) -> None:
    five_brokers(made)
    made.rows["measures"] = [
        row for row in made.rows["measures"] if row["system"] != "artemis" or row["scenario"] in "AB"
    ]
    assert "on geometric mean over the 2 points that all ran; its figure is the best at 2 of them" in of(made, write)
    made.rows["measures"] = [row for row in made.rows["measures"] if row["scenario"] == "A"]
    assert of(made, write).endswith("the second, at the one point that all ran.")


def test_the_second_may_be_better_at_a_point(made: SyntheticRuns, write: Write) -> None:
    five_brokers(made)
    for row in made.rows["measures"]:
        if (row["system"], row["scenario"], row["metric"]) == ("openmq", "D", "rate.received"):
            row["value"] *= 20
    assert of(made, write).endswith("its figure is the best at 7 of them.")


@pytest.mark.parametrize(
    ("change", "why", "advice"),
    [
        (
            {"ci95": None},
            "all 40 figures come from one run each",
            "Run it for longer: `mqlab run jms-four-brokers --minutes ",
        ),
        (
            {"quiet": False},
            "other work on the machine disturbed all runs of all 40 figures",
            "End the other work (`mqlab",
        ),
        (
            {"bound_by": "lab"},
            "the lab itself was the limit of all 40 figures, so that both sides may be higher",
            "Give the lab more agents",
        ),
    ],
)
def test_without_an_interval_it_says_that_nothing_is_known_why_and_what_to_do(
    made: SyntheticRuns, write: Write, change: dict[str, object], why: str, advice: str
) -> None:
    for row in five_brokers(made).rows["measures"]:
        row.update(change)
    found = of(made, write)
    assert found.startswith(f"It is not known which system has the best rate at the consumers: {why}")
    assert advice in found
    assert "unbounded" not in found


def test_the_scenarios_whose_runs_were_all_disturbed_are_not_known(made: SyntheticRuns, write: Write) -> None:
    for row in five_brokers(made).rows["measures"]:
        row["quiet"] = row["scenario"] != "A"
    made.rows["measures"] = [row for row in made.rows["measures"] if row["scenario"] in "AB"]
    results = RunResults.of(write(made))
    disturbed, quiet = scenario_answers(results)
    assert disturbed.startswith("Scenario A: not known, other work on the machine disturbed all runs of all 2 figures")
    assert quiet.startswith("Scenario B: hornetq is ahead: its rate at the consumers is 1.33 times (1.3")
    assert answer(results, judge(results)).startswith("hornetq (in place of HornetQ 2.1.1) is first: its rate")


def test_a_scenario_that_the_lab_bounded_on_both_sides_is_not_known(made: SyntheticRuns, write: Write) -> None:
    for row in five_brokers(made).rows["measures"]:
        row["bound_by"] = "lab" if row["scenario"] == "A" else "broker"
    made.rows["measures"] = [row for row in made.rows["measures"] if row["scenario"] in "AB"]
    bounded, known = scenario_answers(RunResults.of(write(made)))
    assert bounded.startswith("Scenario A: not known, the lab itself was the limit of ")
    assert known.startswith("Scenario B: hornetq is ahead")


def test_one_system_whose_runs_were_all_disturbed_has_no_figure(made: SyntheticRuns, write: Write) -> None:
    for row in made.rows["measures"]:
        row["quiet"] = False
    found = of(made, write)
    assert found.startswith("The highest rate at the consumers of embedded is not known: other work on the machine")
    assert found.endswith("then run it again: `mqlab run jms-four-brokers`.")


def test_runs_that_were_not_steady_were_not_disturbed(made: SyntheticRuns, write: Write) -> None:
    for row in made.rows["measures"]:
        row["quiet"] = False
    for run in made.rows["noise"]:
        run["unsteady"] = "a trend"
    found = of(made, write)
    assert "is not known: no run of all " in found
    assert "figures had a steady rate; in these runs it was" in found
    assert found.endswith("choose a larger scale, or `phases` of the study.")
    page = html.render(build(RunResults.of(write(made))))
    assert "or <code>phases</code> of the study.</p>" in page
    for run in made.rows["noise"][:1]:
        run["disturbed"] = "steal"
    assert "other work on the machine disturbed all runs of all 8 figures, or they were not steady" in of(made, write)


def test_a_second_that_the_lab_bounded_may_be_first(made: SyntheticRuns, write: Write) -> None:
    for row in five_brokers(made).rows["measures"]:
        row["bound_by"] = "lab" if row["system"] == "artemis" else "broker"
    assert of(made, write).startswith("No system is surely first")
    for row in made.rows["measures"]:
        row["bound_by"] = "lab" if row["system"] == "hornetq" else "broker"
    assert "1.33 times (1.33 to unbounded)" in of(made, write)


def test_two_systems_that_cannot_be_told_apart(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"].append({"name": "other", "version": "7", "settings": {}, "stamps": []})
    add_system(made, "other", 1.0001)
    for row in made.rows["measures"]:
        row["bound_by"] = "broker"
    assert of(made, write).startswith("No system is surely first: the rate at the consumers of other is 1 times (0.9")


def test_one_system_says_its_answer(made: SyntheticRuns, write: Write) -> None:
    found = of(made, write)
    assert found.startswith(
        "The highest rate at the consumers of embedded is ≥ 98.1 M messages/s, ± 981 k, in scenario B."
    )
    assert RATES["B"] == 98_123_456.0
    assert "Of the study's claims 5 hold; 1 refuted, 3 inconclusive, 17 not testable here." in found


def test_nothing_was_measured(made: SyntheticRuns, write: Write) -> None:
    made.rows["measures"] = []
    assert of(made, write) == "Nothing was measured."


def test_figures_whose_runs_differ_too_much(made: SyntheticRuns, write: Write) -> None:
    for row in made.rows["measures"]:
        row["ci95"] = 2 * row["value"]
    found = of(made, write)
    assert found.startswith("The highest rate at the consumers of embedded is not known: the runs differ so much that")
    assert "Run it for longer: `mqlab run" in found


@pytest.mark.parametrize(("clock_error_s", "is_sure"), [(0.0, True), (20.0, False)])
def test_no_system_is_first_by_less_than_the_error_of_the_clocks(
    clock_error_s: float, is_sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqlab.report.exhibits.answer.headline", lambda _: "latency.p99")
    latencies = (100.0, 101.0, 99.0, 100.5, 99.5)
    results = at_a(latencies, [1.3 * value for value in latencies], "latency.p99")
    results.meta["clock_error"] = clock_error_s
    assert answer(results, []).startswith("base is first: its" if is_sure else "No system is surely first")
