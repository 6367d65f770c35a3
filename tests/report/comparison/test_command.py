"""`mqlab compare` on finished runs, and gates of `mqlab report`: what is printed, and every exit code."""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mqlab.cli.app import app_with
from mqlab.events.folder import RunFolder
from mqlab.json_values import JsonObject
from report.synthetic_runs import META, SyntheticRuns, cut_down

ROUNDS = (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)


def command(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app_with(["compare", "report", "measure"]), [*map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def add_rates(made: SyntheticRuns, system: str, rate: float, rounds: Sequence[float] = ROUNDS) -> None:
    """At scenario A, with latencies of 4 ms."""
    for metric, value in (("rate.work", rate), ("latency.p99", 0.004)):
        made.measure("A", metric, value, value * 0.005, system, "broker", runs=len(rounds))
        place = {"scenario": "A", "point": "", "system": system}
        for number, part in enumerate(rounds, start=1):
            run = {"run": number, **place, "repetition": number, "metric": metric, "value": value * part}
            made.rows["run_measures"].append({**run, "unit": "messages/s", "observations": None})
    for number in range(len(rounds)):
        made.run("A", number + 1, system=system)


class Runs:
    """Writes run folders of a small study."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._numbers = count()

    def study(self) -> SyntheticRuns:
        made = cut_down(self._parent / f"study-{next(self._numbers)}", "A")
        for rows in made.rows.values():
            rows.clear()
        return made

    def write(self, made: SyntheticRuns) -> RunFolder:
        return made.write(self._parent / f"run-{next(self._numbers)}")

    def one(self, rate: float, system: str = "embedded", **meta: object) -> RunFolder:
        made = self.study()
        self._name(made, system)
        made.meta |= meta
        add_rates(made, system, rate)
        return self.write(made)

    def both(self, base: float, new: float, rounds: Sequence[float] = ROUNDS) -> SyntheticRuns:
        """One run of two systems, whose rounds scatter the other way round."""
        made = self.study()
        self._name(made, "old", "young")
        add_rates(made, "old", base, rounds)
        add_rates(made, "young", new, rounds[::-1])
        return made

    @staticmethod
    def _name(made: SyntheticRuns, *systems: str) -> None:
        made.meta["systems"] = [{"name": name, "version": "1", "settings": {}, "stamps": []} for name in systems]


def reject(made: SyntheticRuns, system: str, repetition: int, status: str) -> None:
    """The pipeline uses no run whose audit is not clean."""
    place = (system, repetition)
    for table in ("audits", "noise"):
        for row in made.rows[table]:
            if (row["system"], row["repetition"]) == place:
                row |= {"status": status, "reason": "for some reason"} if table == "audits" else {"used": False}
    kept = [row for row in made.rows["run_measures"] if (row["system"], row["repetition"]) != place]
    made.rows["run_measures"] = kept


class Files:
    """The files of a command for other programs."""

    def __init__(self, folder: Path) -> None:
        self._files = {name: folder / f"written-{name}" for name in ("junit", "markdown", "csv")}
        self.options = [word for name, path in self._files.items() for word in (f"--{name}", path)]

    def text(self, name: str) -> str:
        return self._files[name].read_text()

    def cases(self) -> list[ElementTree.Element]:
        (suite,) = ElementTree.fromstring(self.text("junit"))
        return [*suite]

    def counts(self) -> tuple[str | None, str | None]:
        """Failures and errors."""
        (suite,) = ElementTree.fromstring(self.text("junit"))
        return suite.get("failures"), suite.get("errors")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def compared(*arguments: str | Path) -> tuple[int, JsonObject]:
    result = command("compare", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def outcomes(found: JsonObject) -> dict[str, str]:
    return {row["metric"]: row["outcome"] for row in found["rows"]}


class TestExitCodes:
    def test_equal_systems_end_with_0(self, runs: Runs) -> None:
        code, found = compared(runs.write(runs.both(1000, 1000)).path)
        assert (code, outcomes(found)) == (0, {"rate.work": "same", "latency.p99": "same"})
        assert found["paired"]

    def test_a_regression_ends_with_5(self, runs: Runs) -> None:
        code, found = compared(runs.write(runs.both(1000, 900)).path)
        assert (code, outcomes(found)) == (5, {"rate.work": "worse", "latency.p99": "same"})

    def test_an_improvement_ends_with_0(self, runs: Runs) -> None:
        code, found = compared(runs.write(runs.both(1000, 1100)).path)
        assert (code, outcomes(found)["rate.work"]) == (0, "better")

    @pytest.mark.parametrize(
        ("condition", "code"),
        [
            ("rate.work < -5%", 5),
            ("rate.work < -20%", 0),
            ("rate.work < -10%", 6),
            ("rate.work < 950/s", 4),
            ("rate.work < 500/s", 0),
            ("rate.work < 900/s", 6),
            ("latency.p99 > +10%", 0),
            ("holds > +10%", 6),
        ],
    )
    def test_a_gate_alone_decides(self, runs: Runs, condition: str, code: int) -> None:
        found = compared(runs.write(runs.both(1000, 900)).path, "--fail-if", condition)
        assert found[0] == code
        words = {0: "passed", 4: "failed", 5: "failed", 6: "not known"}
        assert [gate["outcome"] for gate in found[1]["gates"]] == [words[code]]

    def test_the_worst_of_several_gates_decides(self, runs: Runs) -> None:
        folder = runs.write(runs.both(1000, 900)).path
        gates = ("--fail-if", "rate.work < -10%", "--fail-if", "rate.work < -5%")
        assert compared(folder, *gates)[0] == 5
        assert compared(folder, *gates, "--fail-if", "rate.work < 950/s")[0] == 4

    @pytest.mark.parametrize(("status", "code"), [("failed", 3), ("void", 3), ("incomplete", 7)])
    def test_a_run_that_does_not_count_is_left_out_and_named(
        self, runs: Runs, tmp_path: Path, status: str, code: int
    ) -> None:
        """The other rounds give an answer, and all files; the exit code is that of the run."""
        made = runs.both(1000, 900)
        reject(made, "young", 2, status)
        files = Files(tmp_path)
        result = command("compare", runs.write(made).path, "--json", *files.options)
        assert result.exit_code == code
        assert "for some reason" in result.stderr
        found = json.loads(result.stdout)
        assert outcomes(found) == {"rate.work": "worse", "latency.p99": "same"}
        assert found["notes"] == [f"Left out of young at A: round 2, {status}: for some reason."]
        assert "Left out of young at A: round 2" in files.text("markdown")
        assert files.text("csv").count("rate.work") == 1
        (of_old, of_young) = [case for case in files.cases() if "delivery audit" in (case.get("name") or "")]
        assert [*of_old] == []
        assert [child.get("message") for child in of_young] == [f"{status}: for some reason"]

    def test_where_no_run_of_a_system_counts_the_files_say_so(self, runs: Runs, tmp_path: Path) -> None:
        made = runs.both(1000, 900)
        for number in range(1, 7):
            reject(made, "young", number, "failed")
        made.rows["measures"] = [row for row in made.rows["measures"] if row["system"] == "old"]
        files = Files(tmp_path)
        result = command("compare", runs.write(made).path, "--json", *files.options, "--fail-if", "rate.work < -5%")
        assert result.exit_code == 3
        assert set(outcomes(json.loads(result.stdout)).values()) == {"not known"}
        assert files.counts() == ("1", "1")

    def test_an_incomplete_study_is_compared_as_far_as_it_came(self, runs: Runs, tmp_path: Path) -> None:
        made = runs.both(1000, 900)
        made.meta["status"] = "incomplete"
        files = Files(tmp_path)
        result = command("compare", runs.write(made).path, *files.options, "--fail-if", "rate.work < -5%")
        assert result.exit_code == 7
        assert files.counts() == ("1", "1")
        assert files.text("markdown").startswith("# young against old")

    def test_another_system_of_the_run_does_not_matter(self, runs: Runs) -> None:
        made = runs.both(1000, 1000)
        made.meta["systems"].append({"name": "third", "version": "1", "settings": {}, "stamps": []})
        made.run("A", 1, "failed", "3 lost", system="third")
        assert compared(runs.write(made).path, "--system", "old", "--system", "young")[0] == 0

    @pytest.mark.parametrize(
        ("new", "goals", "condition", "code", "counts"),
        [
            (1000, ["rate.work > 500/s"], None, 0, ("0", "0")),
            (900, ["rate.work > 500/s"], None, 5, ("1", "0")),
            (900, ["rate.work > 2k/s"], None, 4, ("2", "0")),
            (900, ["rate.work > 500/s"], "rate.work < -20%", 0, ("0", "0")),
            (900, ["rate.work > 500/s"], "rate.work < -5%", 5, ("1", "0")),
            (900, ["rate.work > 500/s"], "rate.work < -10%", 6, ("0", "1")),
            (900, ["rate.work > 900/s"], "rate.work < -20%", 6, ("0", "1")),
            (900, [], "holds > +10%", 6, ("0", "1")),
        ],
    )
    def test_junit_is_red_where_the_exit_code_is_not_0(
        self, runs: Runs, tmp_path: Path, new: float, goals: list[str], condition: str | None, code: int,
        counts: tuple[str, str],
    ) -> None:  # fmt: skip
        """Failures for a missed goal and a regression, errors for what is not known."""
        made = runs.both(1000, new)
        file = made.study.files[0]
        file.write_text(f"{file.read_text()}goals: {json.dumps(goals)}\n")
        files = Files(tmp_path)
        words = () if condition is None else ("--fail-if", condition)
        assert command("compare", runs.write(made).path, *files.options, *words).exit_code == code
        assert files.counts() == counts

    @pytest.mark.parametrize(
        ("condition", "code"),
        [("rate.work < 1.5k/s", 4), ("rate.work < 1k/s", 6), ("rate.work < 500/s", 0), ("latency.p99 > 3ms", 4)],
    )
    def test_a_gate_of_a_report(self, runs: Runs, condition: str, code: int) -> None:
        assert command("report", runs.one(1000).path, "--fail-if", condition).exit_code == code

    def test_a_goal_of_the_study_is_judged_and_shown(self, runs: Runs, tmp_path: Path) -> None:
        made = runs.study()
        file = made.study.files[0]
        file.write_text(f"{file.read_text()}goals: ['rate.work > 2k/s', 'latency.p99 < 5ms']\n")
        add_rates(made, "embedded", 1000)
        folder = runs.write(made)
        result = command("report", folder.path)
        assert result.exit_code == 4
        assert "goal missed: goal rate.work > 2k/s; embedded: 1,000 messages/s (995 to 1,005) at A" in result.stderr
        assert "goal latency.p99 < 5ms, embedded: passed" in result.stdout
        page = (folder.report / "index.html").read_text()
        assert "Goals and gates" in page
        assert "latency.p99 &lt; 5ms" in page
        document = json.loads(command("report", folder.path, "--json").stdout)
        assert [goal["outcome"] for goal in document["goals"]] == ["failed", "passed"]
        assert document["gates"] == []
        assert tmp_path in folder.path.parents


class TestTwoRuns:
    def test_they_are_compared_as_runs_that_took_no_turns(self, runs: Runs) -> None:
        code, found = compared(runs.one(1000, id="monday").path, runs.one(900, id="tuesday").path)
        assert (code, outcomes(found)["rate.work"]) == (5, "worse")
        assert not found["paired"]
        assert (found["base"], found["new"]) == ("embedded of monday", "embedded of tuesday")
        assert any("took no turns" in note for note in found["notes"])

    def test_another_machine_is_refused_unless_told(self, runs: Runs) -> None:
        machine = {**META["machine"], "cores": 64}
        paths = runs.one(1000).path, runs.one(900, machine=machine).path
        refused = command("compare", *paths)
        assert refused.exit_code == 2
        assert "of different machines (cores 2 and 64); --other-machine compares them" in refused.stderr
        assert compared(*paths, "--other-machine")[0] == 5

    def test_systems_are_chosen_by_name(self, runs: Runs) -> None:
        both, one = runs.write(runs.both(1000, 900)).path, runs.one(1000, "other").path
        result = command("compare", both, one)
        assert result.exit_code == 2
        assert "the base has the systems old, young, the new run other" in result.stderr
        assert compared(both, one, "--system", "young", "--system", "other")[1]["base"] == "young"

    def test_one_run_of_one_system_has_nothing_to_compare(self, runs: Runs) -> None:
        result = command("compare", runs.one(1000).path)
        assert result.exit_code == 2
        assert "has the systems embedded; name two of them" in result.stderr


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("embedded", "nats"), "no such run folder; to compare two systems, name a study: --study STUDY"),
            (("embedded", "--study", "jms-four-brokers"), "name two systems: mqlab compare embedded NEW"),
            (("embedded", "nosuch", "--study", "jms-four-brokers"), "there is no system 'nosuch'"),
            (("embedded", "embedded", "--study", "nosuch"), "no such file and no built-in study"),
            (("embedded", "embedded", "--tolerance", "five"), "--tolerance: 'five' is not a share"),
            (("embedded", "embedded", "--tolerance", "0%"), "--tolerance: '0%' is not between 0% and 100%"),
            (("embedded", "embedded", "--junit", "/nowhere/x"), "/nowhere/x: a file cannot be written there"),
        ],
    )
    def test_what_is_said(self, arguments: tuple[str, ...], message: str) -> None:
        result = command("compare", *arguments)
        assert result.exit_code == 2
        assert message in result.stderr.replace("\n", "")

    @pytest.mark.parametrize(
        ("condition", "message"),
        [
            ("rate.work", "--fail-if: 'rate.work' is not a condition"),
            ("rate.work[Z] < 1/s", "--fail-if: there is no scenario 'Z'; accepted: A"),
            ("rate.work < -5%", "--fail-if: 'rate.work < -5%' compares two systems; only mqlab compare does"),
            ("confirm.p99 > 5ms", "--fail-if: 'confirm.p99 > 5ms': no point has confirm.p99: no producer waits"),
        ],
    )
    def test_what_is_said_of_a_gate(self, runs: Runs, condition: str, message: str) -> None:
        folder = runs.one(1000)
        result = command("report", folder.path, "--fail-if", condition)
        assert (result.exit_code, [*folder.report.iterdir()]) == (2, [])
        assert message in result.stderr.replace("\n", "")


class TestWhatIsShown:
    def test_the_table_fits_80_columns(self, runs: Runs) -> None:
        shown = command("compare", runs.write(runs.both(1_234_567, 900_000)).path).stdout.splitlines()
        table = [line for line in shown if line.startswith("  ")]
        assert max(map(len, table)) <= 80
        assert any("1.23 M/s" in line and "900 k/s" in line and "worse" in line for line in table)
        assert shown[0].startswith("The rate of young is 0.729 times (0.7")
        assert "that of old at A: worse; latency, 99" in shown[0]

    def test_a_metric_with_a_long_label_has_its_name(self, runs: Runs) -> None:
        made = runs.both(1000, 900)
        for system in ("old", "young"):
            made.measure("A", "held.seconds", 1.0, 0.01, system)
        shown = command("compare", runs.write(made).path, "--fail-if", "held.seconds > +10%").stdout.splitlines()
        (line,) = [line for line in shown if line.startswith("  held.seconds ")]
        assert len(line) <= 80

    def test_the_pages(self, runs: Runs) -> None:
        folder = runs.write(runs.both(1000, 900))
        command("compare", folder.path, "--fail-if", "rate.work < -5%")
        page = (folder.report / "compare.html").read_text()
        assert page.lstrip().lower().startswith("<!doctype html>")
        assert "rate.work &lt; -5%" in page
        assert "young against old" in (folder.report / "compare.md").read_text()

    def test_packed_messages_are_never_compared_without_the_words(self, runs: Runs) -> None:
        made = runs.both(1000, 900)
        for system, records in (("old", 1), ("young", 64)):
            made.measure("A", "message.records", records, 0.0, system)
            made.measure("A", "message.waits", 0, 0.0, system)
        folder = runs.write(made)
        shown = command("compare", folder.path).stdout
        assert "The rate of young [packed]" in shown
        assert "that of old [message by message]" in shown
        assert "message by message against packed, 64 records a message" in shown
        found = compared(folder.path)[1]
        assert found["rows"][0]["travel"] == ["message by message", "packed, 64 records a message"]
        assert "message by message against packed" in (folder.report / "compare.md").read_text()

    def test_files_for_other_programs(self, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        summary = tmp_path / "summary.md"
        summary.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
        files = Files(tmp_path)
        folder = runs.write(runs.both(1000, 900)).path
        result = command("compare", folder, "--fail-if", "rate.work < -5%", *files.options)
        assert result.exit_code == 5
        assert files.counts() == ("1", "0")
        assert files.cases()[0].get("name") == "fails if rate.work < -5%"
        assert files.text("markdown").startswith("# young against old\n")
        assert summary.read_text() == f"before\n{files.text('markdown')}"
        head, first, *_ = files.text("csv").splitlines()
        assert head.startswith("study,scenario,point,metric,unit,base,new,ratio,low,high,outcome")
        assert first.startswith("jms-four-brokers,A,,rate.work,messages/s,1000.0,900.0,0.9,0.8")
