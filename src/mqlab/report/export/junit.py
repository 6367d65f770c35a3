"""Gates, outcomes and audits as JUnit XML, which continuous integration servers show as tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from mqlab.pipeline.schema import CLEAN
from mqlab.report.capacity.section import sentence
from mqlab.report.capacity.trials import PointSearch, searches
from mqlab.report.claims.gates import FAILED, PASSED, GateVerdict
from mqlab.report.comparison.comparison import WORSE, SystemComparison
from mqlab.report.comparison.tables import ratio_text
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import NOT_KNOWN, metric
from mqlab.study.capacity.search import Status

# An error is what could not be decided: a server does not call it passed either.
Result = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True)
class JunitCase:
    group: str
    name: str
    result: Result
    message: str = ""


@dataclass(frozen=True)
class JunitSuite:
    name: str
    cases: Sequence[JunitCase]


def run_suite(results: RunResults, verdicts: Iterable[GateVerdict]) -> JunitSuite:
    """The gates and searches of a run, the delivery audit of each of its points, and whether it came to its end."""
    systems = [system.name for system in results.systems]
    ended = _end_case(results.study.id, (results,), "" if results.measures else "no run was valid")
    gates = map(_gate_case, verdicts)
    cases = [*gates, *map(_search_case, searches(results)), *_audit_cases(results, systems), ended]
    return JunitSuite(f"mqlab {results.study.id}", cases)


def comparison_suite(comparison: SystemComparison, runs: Iterable[RunResults]) -> JunitSuite:
    """The goals and gates of a comparison. Without gates of its own, each figure: worse fails, not known is left out.

    `runs`: those that were compared.
    """
    results, systems = comparison.results, (comparison.base, comparison.new)
    gates = map(_gate_case, comparison.gates)
    figures = [] if comparison.has_conditions else _figure_cases(comparison)
    ended = _end_case(results.study.id, runs, "" if comparison.rows else "the systems have no point in common")
    name = f"mqlab {results.study.id}: {comparison.new} against {comparison.base}"
    return JunitSuite(name, [*gates, *figures, *_audit_cases(results, systems), ended])


def junit_xml(suites: Sequence[JunitSuite]) -> str:
    root = ElementTree.Element("testsuites", _counts([case for suite in suites for case in suite.cases]))
    for suite in suites:
        element = ElementTree.SubElement(root, "testsuite", {"name": suite.name, **_counts(suite.cases)})
        for case in suite.cases:
            one = ElementTree.SubElement(element, "testcase", {"classname": case.group, "name": case.name})
            if case.result != "passed":
                ElementTree.SubElement(one, case.result, {"message": case.message})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cases: Sequence[JunitCase]) -> dict[str, str]:
    results = [case.result for case in cases]
    return {
        "tests": f"{len(results)}",
        "failures": f"{results.count('failure')}",
        "errors": f"{results.count('error')}",
        "skipped": f"{results.count('skipped')}",
    }


def _gate_case(verdict: GateVerdict) -> JunitCase:
    words: dict[str, Result] = {PASSED: "passed", FAILED: "failure", NOT_KNOWN: "error"}
    name = f"{verdict.kind} {verdict.gate.text}"
    return JunitCase(verdict.subject, name, words[verdict.outcome], f"{verdict.outcome}: {verdict.words}")


def _search_case(search: PointSearch) -> JunitCase:
    words: dict[Status, Result] = {"found": "passed", "above": "passed", "below": "failure", "undecided": "error"}
    name = f"capacity of {search.point.label} within {search.goal}"
    return JunitCase(search.system, name, words[search.capacity.status], sentence(search))


def _end_case(group: str, runs: Iterable[RunResults], missing: str) -> JunitCase:
    ended_early = "ended before all points were measured" if any(run.is_incomplete for run in runs) else ""
    reason = ended_early or missing
    return JunitCase(group, "all points were measured", "error" if reason else "passed", reason)


def _figure_cases(comparison: SystemComparison) -> list[JunitCase]:
    results: dict[str, Result] = {WORSE: "failure", NOT_KNOWN: "skipped"}
    return [
        JunitCase(
            row.point.label,
            metric(row.metric),
            results.get(row.outcome, "passed"),
            f"{row.outcome}: new / base {ratio_text(row.ratio)}" + (f"; {row.reason}" if row.reason else ""),
        )
        for row in comparison.rows
    ]


def _audit_cases(results: RunResults, systems: Sequence[str]) -> list[JunitCase]:
    """Without the rates of a search, which are meant to be too high."""
    cases = []
    for system in systems:
        for point in results.judged_points:
            audits = results.audits_of(system, point)
            reasons = [
                f"{audit.status}: {audit.reason or 'no reason given'}" for audit in audits if audit.status != CLEAN
            ]
            if audits:
                found: Result = "failure" if reasons else "passed"
                name = f"delivery audit of {point.label}"
                cases.append(JunitCase(system, name, found, "; ".join(dict.fromkeys(reasons))))
    return cases
