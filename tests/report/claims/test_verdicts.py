"""Each claim judged for each system, on what was measured and on what was published."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report.claims.interval import Interval
from mqlab.report.claims.missing import times_to_decide
from mqlab.report.claims.verdicts import (
    ALL_SYSTEMS,
    BY_CONSTRUCTION,
    HOLDS,
    INCONCLUSIVE,
    NOT_TESTABLE,
    REFUTED,
    Verdict,
    judge,
)
from mqlab.report.data.run_results import RunResults
from mqlab.study import Claim
from report.conftest import Write
from report.sweep_study import FIRST, SCAN, SECOND, sweeps
from report.synthetic_runs import SyntheticRuns, add_system, whole_study


def judged(
    made: SyntheticRuns,
    write: Write,
    check: str | None,
    not_testable: str | None = None,
    imposed_by: tuple[str, ...] = (),
) -> list[Verdict]:
    """The verdicts on one claim of our own in place of the study's."""
    results = RunResults.of(write(made))
    ours = Claim(
        id="ours", says="we say so", source="here", check=check, not_testable=not_testable, imposed_by=imposed_by
    )
    return judge(replace(results, study=replace(results.study, claims=(ours,))))


def on_ours(made: SyntheticRuns, write: Write, check: str, imposed_by: tuple[str, ...] = ()) -> Verdict:
    found = [verdict for verdict in judged(made, write, check, imposed_by=imposed_by) if verdict.basis == "measured"]
    assert len(found) == 1
    return found[0]


def run_with(made: SyntheticRuns, **factors: float) -> SyntheticRuns:
    """Other systems beside the embedded broker, that many times as fast."""
    for name, factor in factors.items():
        made.meta["systems"].append({"name": name, "version": f"{name}-7", "settings": {}, "stamps": []})
        add_system(made, name, factor)
    for row in made.rows["measures"]:
        row["bound_by"] = "broker"
    return made


def by_system(verdicts: list[Verdict], claim: str, basis: str) -> dict[str, str]:
    return {v.subject: v.verdict for v in verdicts if v.claim == claim and v.basis == basis}


def test_published_values_are_judged_for_each_published_system(whole_run: RunFolder) -> None:
    verdicts = judge(RunResults.of(whole_run))
    assert by_system(verdicts, "transactions-raise", "published") == {
        "HornetQ 2.1.1": HOLDS,
        "ActiveMQ 5.3.2": HOLDS,
        "SwiftMQ 7.6": HOLDS,
        "OpenMQ 4.4": REFUTED,
    }
    assert by_system(verdicts, "up-to-2-5", "published") == {ALL_SYSTEMS: REFUTED}
    assert by_system(verdicts, "small-hornetq-leads", "published") == {ALL_SYSTEMS: HOLDS}
    assert set(by_system(verdicts, "persistent-shared-syncs", "published").values()) == {NOT_TESTABLE}


def test_measured_values_are_judged_for_each_system_that_was_run(made: SyntheticRuns, write: Write) -> None:
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    add_system(made, "other", 0.5)
    verdicts = judge(RunResults.of(write(made)))
    assert by_system(verdicts, "transactions-raise", "measured") == {"embedded": HOLDS, "other": HOLDS}
    assert by_system(verdicts, "persistent-wide-range", "measured") == {ALL_SYSTEMS: REFUTED}


def test_every_claim_has_a_verdict_on_both_bases(whole_run: RunFolder) -> None:
    results = RunResults.of(whole_run)
    verdicts = judge(results)
    for claim in results.study.claims:
        assert {v.basis for v in verdicts if v.claim == claim.id} == {"published", "measured"}
        assert {(v.says, v.source) for v in verdicts if v.claim == claim.id} == {(claim.says, claim.source)}


def test_figures_stand_behind_a_verdict(made: SyntheticRuns, write: Write) -> None:
    verdict = on_ours(made, write, "rate.received[H] / rate.received[G] > 1.2")
    assert (verdict.verdict, verdict.reason) == (HOLDS, "")
    assert verdict.figures == "rate.received[H] / rate.received[G] = 1.87 (1.86 to 1.89)"


def test_one_published_system_is_no_comparison(made: SyntheticRuns, write: Write) -> None:
    verdict = on_ours(made, write, "spread(rate.received[A]) > 2")
    assert verdict.verdict == NOT_TESTABLE
    assert verdict.reason == "it compares systems, and only embedded was measured"


def test_a_system_that_was_not_run_is_named(made: SyntheticRuns, write: Write) -> None:
    verdict = on_ours(made, write, 'first(rate.received[A]) == "HornetQ 2.1.1"')
    assert verdict.verdict == NOT_TESTABLE
    assert verdict.reason == "it names HornetQ 2.1.1, which was not measured: add --system hornetq"


def test_a_claim_without_a_check_gives_its_reason(made: SyntheticRuns, write: Write) -> None:
    verdicts = judged(made, write, None, not_testable="it is about the weather")
    assert {(v.basis, v.subject, v.verdict, v.reason) for v in verdicts} == {
        ("published", ALL_SYSTEMS, NOT_TESTABLE, "it is about the weather"),
        ("measured", ALL_SYSTEMS, NOT_TESTABLE, "it is about the weather"),
    }


def test_a_missing_measure_is_said_with_the_reason_of_its_runs(made: SyntheticRuns, write: Write) -> None:
    made.drop("H")
    made.run("H", status="void", reason="the agents and the events disagree")
    verdict = on_ours(made, write, "rate.received[H] / rate.received[G] > 1.2")
    assert verdict.verdict == NOT_TESTABLE
    assert verdict.reason == ("no rate.received of H: no valid run; void: the agents and the events disagree")


def test_a_scenario_that_was_not_run(made: SyntheticRuns, write: Write) -> None:
    made.drop("H")
    assert on_ours(made, write, "rate.received[H] > 1").reason == "no rate.received of H: not run"


def test_a_metric_that_was_not_measured(made: SyntheticRuns, write: Write) -> None:
    assert on_ours(made, write, "syncs[A] > 1").reason == "no syncs of A: not measured"


def test_an_unknown_point(made: SyntheticRuns, write: Write) -> None:
    verdict = on_ours(made, write, 'rate.received[A, "size=1KiB"] > 1')
    assert (verdict.verdict, verdict.reason) == (NOT_TESTABLE, "the study has no point A size=1KiB at the scale quick")


def only(made: SyntheticRuns, **values: tuple[float, float | None, str | None]) -> SyntheticRuns:
    made.rows["measures"] = made.rows["run_measures"] = []
    for scenario, (value, ci95, bound_by) in values.items():
        made.measure(scenario, "rate.received", value, ci95, bound_by=bound_by)
    return made


@pytest.mark.parametrize(("ci95", "expected"), [(0.0, HOLDS), (9.9, HOLDS), (10.0, INCONCLUSIVE), (60.0, INCONCLUSIVE)])
def test_the_interval_decides(made: SyntheticRuns, write: Write, ci95: float, expected: str) -> None:
    verdict = on_ours(only(made, A=(110.0, ci95, "broker")), write, "rate.received[A] > 100")
    assert verdict.verdict == expected
    assert verdict.reason == ("the 95 % intervals leave it open" if expected == INCONCLUSIVE else "")


def test_an_interval_never_reaches_below_zero(made: SyntheticRuns, write: Write) -> None:
    assert on_ours(only(made, A=(5.0, 63.0, None)), write, "rate.received[A] >= 0").verdict == HOLDS


@pytest.mark.parametrize(("ci95", "expected"), [(50.0, HOLDS), (150.0, INCONCLUSIVE)])
def test_one_run_decides_by_the_error_of_the_other_points(
    made: SyntheticRuns, write: Write, ci95: float, expected: str
) -> None:
    only(made, A=(1000.0, ci95, "broker"))
    made.rows["measures"][-1]["runs"] = 1
    verdict = on_ours(made, write, "rate.received[A] > 900")
    why = "A has one valid run, and the error of the other points" if expected == INCONCLUSIVE else ""
    assert (verdict.verdict, verdict.reason) == (expected, why)


def test_one_run_among_few_points_decides_nothing(made: SyntheticRuns, write: Write) -> None:
    verdict = on_ours(only(made, A=(1000.0, None, "broker")), write, "rate.received[A] > 1")
    assert (verdict.verdict, verdict.reason) == (INCONCLUSIVE, "A has one valid run and so no interval")


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("rate.received[A] / rate.received[B] < 1", INCONCLUSIVE),  # A may be faster than it shows
        ("rate.received[A] / rate.received[B] > 0.4", HOLDS),  # and then all the more
        ("rate.received[B] / rate.received[A] > 3", REFUTED),
        ("rate.received[B] / rate.received[A] > 1.5", INCONCLUSIVE),
    ],
)
def test_a_figure_that_the_lab_bounds_is_a_lower_bound(
    made: SyntheticRuns, write: Write, check: str, expected: str
) -> None:
    verdict = on_ours(only(made, A=(100.0, 1.0, "lab"), B=(200.0, 1.0, "broker")), write, check)
    assert verdict.verdict == expected
    if expected == INCONCLUSIVE:
        assert verdict.reason == "A was bound by the lab and is a lower bound"


@pytest.mark.parametrize(
    ("cpu_lab", "check", "expected"),
    [
        # 35 % of a core were the lab's, at least 50 % the system's: it could do 200 at most, in a core of its own.
        (35.0, "rate.received[A] / rate.received[B] < 0.45", HOLDS),
        (35.0, "rate.received[A] / rate.received[B] < 0.35", INCONCLUSIVE),
        # An interval of the lab's work counts by its upper end: 35 +- 25 %.
        (60.0, "rate.received[A] / rate.received[B] < 0.85", HOLDS),
        (60.0, "rate.received[A] / rate.received[B] < 0.75", INCONCLUSIVE),
        (85.0, "rate.received[A] / rate.received[B] < 1000", INCONCLUSIVE),
    ],
)
def test_without_the_lab_a_figure_is_at_most_what_a_whole_core_can_do(
    made: SyntheticRuns, write: Write, cpu_lab: float, check: str, expected: str
) -> None:
    only(made, A=(100.0, 0.1, "lab"), B=(500.0, 1.0, "broker"))
    made.measure("A", "cpu.lab", 35.0, cpu_lab - 35.0, bound_by="lab")
    assert on_ours(made, write, check).verdict == expected


def test_within_one_point_a_figure_is_what_happened(made: SyntheticRuns, write: Write) -> None:
    """Copies a message got are counted in the same runs: who was the bottleneck does not matter."""
    only(made, B=(1500.0, 1.0, "lab"))
    made.measure("B", "rate.sent", 100.0, 0.1, bound_by="lab")
    assert on_ours(made, write, "14 < rate.received[B] / rate.sent[B] < 16").verdict == HOLDS


def test_latency_of_a_point_that_the_lab_bounds_has_both_ends(made: SyntheticRuns, write: Write) -> None:
    made.rows["measures"] = []
    made.measure("A", "latency.p99", 0.010, 0.001, bound_by="lab")
    made.measure("B", "latency.p99", 0.020, 0.001, bound_by="lab")
    assert on_ours(made, write, "latency.p99[B] / latency.p99[A] < 3").verdict == HOLDS


def test_zero_as_a_divisor_is_not_testable(made: SyntheticRuns, write: Write) -> None:
    made = only(made, A=(0.0, 0.0, "broker"), B=(5.0, 0.1, "broker"))
    verdict = on_ours(made, write, "rate.received[B] / rate.received[A] > 1")
    assert (verdict.verdict, verdict.reason) == (NOT_TESTABLE, "a divisor is zero")


def test_first_of_measured_systems(write: Write) -> None:
    made = whole_study()
    made.meta["systems"].append({"name": "other", "version": "1", "settings": {}, "stamps": []})
    add_system(made, "other", 0.5)
    assert on_ours(made, write, 'first(rate.received[D]) == "embedded"').verdict == HOLDS
    assert on_ours(made, write, 'first(rate.received[D]) == "other"').verdict == REFUTED
    # In A the lab bounds both: the slower one may be the faster in truth.
    assert on_ours(made, write, 'first(rate.received[A]) == "embedded"').verdict == INCONCLUSIVE


@pytest.mark.parametrize(
    ("check", "words"),
    [
        ("rate.received[A] > 100", "measured 110 (100 to 120), needed more than 100"),
        ("100 <= rate.received[A] < 200", "measured 110 (100 to 120), needed at least 100 and less than 200"),
        ("not rate.received[A] > 100", "measured 110 (100 to 120), needed not more than 100"),
        ("rate.received[A] > rate.received[B]", "measured 1.1 times (0.995 to 1.22), needed more than 1"),
        ("rate.received[A] / rate.received[B] < 2", "measured 1.1 times (0.995 to 1.22), needed less than 2"),
        (
            "rate.received[A] > 100 and rate.received[B] < 200",
            "measured 110 (100 to 120), needed more than 100; measured 100 (90 to 110), needed less than 200",
        ),
    ],
)
def test_a_verdict_is_said_in_words(made: SyntheticRuns, write: Write, check: str, words: str) -> None:
    verdict = on_ours(only(made, A=(110.0, 10.0, "broker"), B=(100.0, 10.0, "broker")), write, check)
    assert verdict.words == words


@pytest.mark.parametrize(
    ("check", "verdict", "measured", "needed"),
    [
        ("rate.received[A] > 1 and rate.received[B] > 105", INCONCLUSIVE, 100.0, "more than 105"),
        ("rate.received[A] > 1 and rate.received[B] > 200", REFUTED, 100.0, "more than 200"),
        ("rate.received[A] > 1 and rate.received[B] > 2", HOLDS, 110.0, "more than 1"),
    ],
)
def test_the_figures_are_those_of_the_comparison_that_decided(
    made: SyntheticRuns, write: Write, check: str, verdict: str, measured: float, needed: str
) -> None:
    found = on_ours(only(made, A=(110.0, 10.0, "broker"), B=(100.0, 10.0, "broker")), write, check)
    assert (found.verdict, found.measured, found.needed) == (verdict, measured, needed)
    assert (found.low, found.high) == (measured - 10, measured + 10)


def test_the_time_that_is_missing(made: SyntheticRuns, write: Write) -> None:
    """So many times the runs that there are, each as long as these."""
    found = on_ours(only(made, A=(110.0, 20.0, "broker")), write, "rate.received[A] > 100")
    (chosen,) = [point for point in made.study.points("quick") if point.scenario == "A"]
    seconds = 3 * (chosen.phases.warmup + chosen.phases.measure + 1)
    times = times_to_decide(Interval(110.0, 90.0, 130.0), (100.0,))
    assert times is not None
    assert found.missing_minutes is not None
    assert found.missing_minutes == pytest.approx((times - 1) * seconds / 60)
    minutes = math.ceil(found.missing_minutes)
    assert found.missing == f"about {minutes} more minutes: mqlab run jms-four-brokers --minutes {minutes}"
    assert found.explanation.endswith(f"; the 95 % intervals leave it open; {found.missing}")


def test_the_command_for_a_longer_run_is_that_of_the_run(made: SyntheticRuns, write: Write) -> None:
    again = "mqlab run mine.yaml --system 'embedded:name=a b' --only A --scale standard"
    made.meta["again"] = again
    made.meta["minutes"] = 5.5
    found = on_ours(only(made, A=(110.0, 20.0, "broker")), write, "rate.received[A] > 100")
    assert found.missing_minutes is not None
    total = math.ceil(found.missing_minutes + 5.5)
    assert found.missing.endswith(f"{again} --minutes {total}"), "a new run begins with nothing"


@pytest.mark.parametrize(("ci95", "bound_by"), [(None, "broker"), (20.0, "lab")])
def test_more_runs_do_not_help_a_lower_bound(
    made: SyntheticRuns, write: Write, ci95: float | None, bound_by: str
) -> None:
    found = on_ours(only(made, A=(90.0, ci95, bound_by)), write, "rate.received[A] > 100")
    assert (found.verdict, found.missing_minutes) == (INCONCLUSIVE, None)


class TestSuccessors:
    """Today's versions stand for the published ones."""

    FIRST = 'first(rate.received[A]) == "HornetQ 2.1.1" and lead(rate.received[A]) > 1.5'

    def test_only_the_systems_of_the_study_are_compared(self, made: SyntheticRuns, write: Write) -> None:
        """The embedded broker and Artemis are faster still, and stand for none of them."""
        run_with(made, hornetq=0.6, activemq=0.3, openmq=0.1, artemis=2.0)
        verdict = on_ours(made, write, self.FIRST)
        assert (verdict.subject, verdict.verdict) == (ALL_SYSTEMS, HOLDS)
        assert verdict.stands_for == (
            "hornetq hornetq-7 stands for HornetQ 2.1.1; activemq activemq-7 stands for ActiveMQ 5.3.2; "
            "openmq openmq-7 stands for OpenMQ 4.4; SwiftMQ 7.6 was not measured"
        )
        assert on_ours(made, write, 'first(rate.received[A]) == "OpenMQ 4.4"').verdict == REFUTED

    def test_artemis_stands_for_hornetq_where_that_was_not_run(self, made: SyntheticRuns, write: Write) -> None:
        verdict = on_ours(run_with(made, artemis=2.0, activemq=0.3), write, self.FIRST)
        assert verdict.verdict == HOLDS
        assert verdict.stands_for.startswith("artemis artemis-7 stands for HornetQ 2.1.1")

    def test_one_system_of_the_study_is_no_comparison(self, made: SyntheticRuns, write: Write) -> None:
        verdict = on_ours(run_with(made, hornetq=0.6), write, self.FIRST)
        assert (verdict.verdict, verdict.reason) == (
            NOT_TESTABLE,
            "it compares systems, and only hornetq was measured",
        )

    def test_the_one_with_the_fewest_settings_stands_for_it(self, made: SyntheticRuns, write: Write) -> None:
        run_with(made, **{"hornetq:sync=no": 9.0, "hornetq": 0.5})
        check = 'rate.received[A] of "HornetQ 2.1.1" < rate.received[A]'
        verdicts = {v.subject: v.verdict for v in judged(made, write, check) if v.basis == "measured"}
        assert verdicts["embedded"] == HOLDS

    def test_a_product_that_is_run_under_its_published_name(self, made: SyntheticRuns, write: Write) -> None:
        run_with(made, **{"SwiftMQ 7.6": 2.0, "hornetq": 0.5})
        verdict = on_ours(made, write, 'first(rate.received[A]) == "SwiftMQ 7.6"')
        assert verdict.verdict == HOLDS
        assert "SwiftMQ" not in verdict.stands_for


def test_a_cause_without_a_counterpart(made: SyntheticRuns, write: Write) -> None:
    """Only the products themselves can prove it."""
    results = RunResults.of(write(run_with(made, hornetq=0.6)))
    named = 'rate.received[A] of "HornetQ 2.1.1" > 1'
    for check, expected in (("rate.received[A] > 1", NOT_TESTABLE), (named, HOLDS)):
        ours = Claim(id="ours", says="so", source="here", check=check, cause="a slow network")
        verdicts = judge(replace(results, study=replace(results.study, claims=(ours,))))
        measured = [verdict for verdict in verdicts if verdict.basis == "measured"]
        assert {verdict.verdict for verdict in measured} == {expected}
        if expected == NOT_TESTABLE:
            assert measured[0].reason == "its cause has no counterpart here: a slow network"
    assert {v.verdict for v in verdicts if v.basis == "published"} == {HOLDS}


DEEP = "rate.round_trips[preload, preload=50]"


class TestStandIns:
    """Claims about published systems, judged on those that were run in their place."""

    @pytest.fixture
    def two(self, tmp_path: Path) -> SyntheticRuns:
        return sweeps(tmp_path / "study", exhibits=[], claims=[])

    def test_each_name_means_its_stand_in(self, two: SyntheticRuns, write: Write) -> None:
        check = f'{DEEP} of "{FIRST}" / {DEEP} of "{SECOND}" > 9'
        verdict = on_ours(two, write, check)
        assert (verdict.subject, verdict.verdict) == (ALL_SYSTEMS, HOLDS)
        assert verdict.figures.endswith("= 9.8 (9.71 to 9.89)")

    def test_an_effect_that_a_setting_imposes_does_not_hold(self, two: SyntheticRuns, write: Write) -> None:
        check = f'{DEEP} of "{FIRST}" / {DEEP} of "{SECOND}" > 9'
        verdict = on_ours(two, write, check, imposed_by=("retrieval",))
        assert (verdict.verdict, verdict.kind) == (BY_CONSTRUCTION, BY_CONSTRUCTION)
        assert verdict.reason == f"{SCAN} with retrieval=scan brings about the effect"
        assert verdict.words == "measured 9.8 times (9.71 to 9.89), needed more than 9"
        assert on_ours(two, write, check, imposed_by=("sync",)).verdict == HOLDS
        of_the_other = f'{DEEP} of "{FIRST}" > 1'
        assert on_ours(two, write, of_the_other, imposed_by=("retrieval",)).verdict == HOLDS

    def test_an_effect_that_a_parameter_imposes_does_not_hold(self, two: SyntheticRuns, write: Write) -> None:
        verdict = on_ours(two, write, f'{DEEP} of "{FIRST}" > 1', imposed_by=("preload",))
        assert (verdict.verdict, verdict.reason) == (
            BY_CONSTRUCTION,
            "preload with preload=50 brings about the effect",
        )
        without = f'rate.round_trips[preload, preload=0] of "{FIRST}" > 1'
        assert on_ours(two, write, without, imposed_by=("preload",)).verdict == HOLDS

    def test_two_systems_at_one_point_are_compared_by_what_each_can_do(self, two: SyntheticRuns, write: Write) -> None:
        for row in two.rows["measures"]:
            row["bound_by"] = "lab" if row["system"] == SCAN else "broker"
        check = f'{DEEP} of "{FIRST}" > {DEEP} of "{SECOND}"'
        verdict = on_ours(two, write, check)
        assert (verdict.verdict, verdict.reason) == (
            INCONCLUSIVE,
            "preload preload=50 was bound by the lab and is a lower bound",
        )

    def test_a_system_that_nobody_stands_for_is_named(self, two: SyntheticRuns, write: Write) -> None:
        two.meta["systems"] = two.meta["systems"][:1]
        verdict = on_ours(two, write, f'rate.round_trips[preload, preload=0] of "{SECOND}" > 1')
        assert (verdict.verdict, verdict.reason) == (NOT_TESTABLE, f"it names {SECOND}, which was not measured")

    def test_a_printed_peak_serves_a_claim_over_its_sweep(self, two: SyntheticRuns, write: Write) -> None:
        check = f'max(bytes.round_trips[grid, size=1KiB, clients=1, threads=*] of "{FIRST}") > 1500000'
        verdicts = {verdict.basis: verdict.verdict for verdict in judged(two, write, check)}
        assert verdicts == {"published": HOLDS, "measured": HOLDS}

    def test_impacts_are_judged_with_their_interval(self, two: SyntheticRuns, write: Write) -> None:
        check = f'impact(rate.round_trips[preload, preload=50] of "{SECOND}")'
        assert on_ours(two, write, f"{check} < -55").verdict == HOLDS
        assert on_ours(two, write, f"{check} < -60").verdict == INCONCLUSIVE
        published = [v for v in judged(two, write, f"{check} < -41") if v.basis == "published"]
        assert (published[0].verdict, published[0].figures[-7:]) == (HOLDS, "= -41.7")

    def test_a_base_has_no_impact_on_itself(self, two: SyntheticRuns, write: Write) -> None:
        verdict = on_ours(two, write, f'impact(rate.round_trips[preload, preload=0] of "{FIRST}") < 1')
        assert verdict.reason == "no impact on rate.round_trips of preload (preload=0): it is a base itself"

    def test_one_point_missing_in_a_sweep_is_not_passed_over(self, two: SyntheticRuns, write: Write) -> None:
        two.rows["measures"] = [row for row in two.rows["measures"] if row["point"] != "preload=50"]
        verdict = on_ours(two, write, f'max(rate.round_trips[preload, preload=*] of "{FIRST}") > 1')
        assert verdict.reason == "no rate.round_trips of preload (preload=50): not measured"
