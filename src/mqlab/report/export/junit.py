"""Gates, outcomes and audits as JUnit XML, which continuous integration servers show as tests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from mqlab.pipeline.schema import CLEAN
from mqlab.report.claims.gates import FAILED, PASSED, GateVerdict
from mqlab.report.comparison.comparison import WORSE, SystemComparison
from mqlab.report.comparison.tables import ratio_text
from mqlab.report.data.run_results import RunResults
from mqlab.report.render.formatting import NOT_KNOWN, metric

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
    """The gates of a run, and the delivery audit of each of its points."""
    return JunitSuite(f"mqlab {results.study.id}", [*map(_gate_case, verdicts), *_audit_cases(results)])


def comparison_suite(comparison: SystemComparison) -> JunitSuite:
    """The gates of a comparison; without any, each figure: worse fails, and not known is left out."""
    own = [_gate_case(verdict) for verdict in comparison.gates] or _figure_cases(comparison)
    name = f"mqlab {comparison.results.study.id}: {comparison.new} against {comparison.base}"
    return JunitSuite(name, [*own, *_audit_cases(comparison.results)])


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


def _audit_cases(results: RunResults) -> list[JunitCase]:
    cases = []
    for system in results.systems:
        for point in results.points:
            audits = results.audits_of(system.name, point)
            reasons = [
                f"{audit.status}: {audit.reason or 'no reason given'}" for audit in audits if audit.status != CLEAN
            ]
            if audits:
                found: Result = "failure" if reasons else "passed"
                name = f"delivery audit of {point.label}"
                cases.append(JunitCase(system.name, name, found, "; ".join(dict.fromkeys(reasons))))
    return cases
