"""The trust lights, and what would decide the open claims."""

from dataclasses import replace

import pytest

from mqlab.events.folder import RunFolder
from mqlab.report.claims.verdicts import HOLDS, INCONCLUSIVE, Verdict
from mqlab.report.data.run_results import RunResults
from mqlab.report.exhibits.trust import trust_lights, undecided
from report.conftest import Write
from report.synthetic_runs import SyntheticRuns, add_system


def lights(made: SyntheticRuns, write: Write) -> dict[str, tuple[str, str]]:
    return {light.label: (light.state, light.text) for light in trust_lights(RunResults.of(write(made)))}


def test_a_clean_quiet_and_steady_run(made: SyntheticRuns, write: Write) -> None:
    found = lights(made, write)
    assert found["Audit"] == ("good", "24 of 24 runs clean: 0 lost, 0 duplicated, 0 out of order, 0 unexpected")
    assert found["Noise"] == ("good", "no run of 24 was disturbed")
    assert found["Steady state"] == ("good", "every run of 24 that is judged was steady")
    # The figures of A and B are lower bounds.
    assert found["Lab share"] == ("fair", "2 of 8 figures are lower bounds")
    assert found["Like for like"][0] == "unknown"


def test_a_failed_audit_is_poor(made: SyntheticRuns, write: Write) -> None:
    made.rows["audits"][0].update(status="failed", lost=3)
    assert lights(made, write)["Audit"][0] == "poor"


@pytest.mark.parametrize(("column", "label"), [("disturbed", "Noise"), ("unsteady", "Steady state")])
def test_flagged_runs_are_fair_and_poor_if_most_figures_rest_on_them(
    made: SyntheticRuns, write: Write, column: str, label: str
) -> None:
    made.rows["noise"][0].update({column: "why", "used": False})
    state, text = lights(made, write)[label]
    assert (state, text.startswith("1 of 24 runs (none counts) was ")) == ("fair", True)
    made.rows["noise"][0]["used"] = True
    assert "1 of them count, marked" in lights(made, write)[label][1]
    for row in made.rows["noise"]:
        row.update({column: "why", "used": True})
    assert lights(made, write)[label][0] == "poor"


def test_what_was_not_watched_is_unknown(made: SyntheticRuns, write: Write) -> None:
    for row in made.rows["noise"]:
        row["steal"] = None
    assert lights(made, write)["Noise"][0] == "unknown"


def test_nothing_measured_is_unknown(made: SyntheticRuns, write: Write) -> None:
    made.rows = {table: [] for table in made.rows}
    assert {state for state, _ in lights(made, write).values()} == {"unknown"}


def test_systems_that_differ_are_not_like_for_like(made: SyntheticRuns, write: Write) -> None:
    entry = {"name": "other", "version": "1", "settings": {}, "stamps": []}
    made.meta["systems"].append(entry)
    add_system(made, "other")
    assert lights(made, write)["Like for like"] == ("good", "the same in travel, syncs and points")
    entry["stamps"] = ["sync off"]
    entry["durability"] = {"syncs": "never"}
    made.rows["measures"] = [r for r in made.rows["measures"] if (r["system"], r["scenario"]) != ("other", "A")]
    expected = "the systems differ in the points that they ran, when they sync and stamped settings"
    assert lights(made, write)["Like for like"] == ("fair", expected)


OPEN = Verdict("one", "It is so.", "p. 1", "embedded", "measured", INCONCLUSIVE)


def open_claim(minutes: float) -> Verdict:
    return replace(OPEN, missing_minutes=minutes)


class TestUndecided:
    def test_all_is_decided(self, whole_run: RunFolder) -> None:
        verdicts = [replace(OPEN, verdict=HOLDS), replace(OPEN, basis="published")]
        assert undecided(RunResults.of(whole_run), verdicts) is None

    def test_the_claims_share_the_minutes_of_the_command(self, whole_run: RunFolder) -> None:
        verdicts = [open_claim(5), open_claim(3), open_claim(58), open_claim(700), OPEN]
        found = undecided(RunResults.of(whole_run), verdicts)
        assert found is not None
        assert found.text == "5 claims are undecided; about 8 more minutes would decide 2 of 5."
        assert found.command == "mqlab run jms-four-brokers --minutes 8"

    @pytest.mark.parametrize("lacking", [OPEN, open_claim(1e6)])
    def test_more_runs_may_not_help(self, whole_run: RunFolder, lacking: Verdict) -> None:
        found = undecided(RunResults.of(whole_run), [lacking])
        assert found is not None
        assert (found.text.startswith("1 claim is undecided;"), found.command) == (True, "")
