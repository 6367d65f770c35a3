"""Gates: conditions that end a command with an exit code of their own (docs/ci.md)."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console

from mqlab.cli.terminal.console import Exit, fail
from mqlab.report import print_gates
from mqlab.report.capacity.section import sentence
from mqlab.report.capacity.trials import PointSearch
from mqlab.report.claims.gates import FAILED, PASSED, GateVerdict, judge_gates
from mqlab.report.data.run_results import RunResults
from mqlab.study import Point
from mqlab.study.language.expression import ExpressionError
from mqlab.study.language.gate import Gate, parse_gate
from mqlab.study.language.name_checks import check_gate, check_measurable

FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", metavar="CONDITION",
        help="'rate.received < 50k/s', 'latency.p99\\[A] > 10ms'; may be repeated. Fails if it is true at any point, "
        "and never passes where the figures leave it open.",
    ),
]  # fmt: skip


def parse_gates(texts: Sequence[str] | None, points: Iterable[Point], *, compares: bool = False) -> list[Gate]:
    """Return the gates, checked against the points that are run. Ends the command on an error.

    `compares`: the command compares two systems, and a limit may be a change.
    """
    by_scenario: dict[str, list[Point]] = {}
    for point in points:
        by_scenario.setdefault(point.scenario, []).append(point)
    gates = []
    for text in texts or ():
        try:
            gate = parse_gate(text)
            check_gate(gate, by_scenario)
            check_measurable(gate, by_scenario)
        except ExpressionError as error:
            fail(f"--fail-if: {error}", Exit.USAGE)
        if gate.is_relative and not compares:
            fail(f"--fail-if: '{text}' compares two systems; only mqlab compare does", Exit.USAGE)
        gates.append(gate)
    return gates


def judged_gates(results: Sequence[RunResults], gates: Sequence[Gate], *, quiet: bool) -> list[list[GateVerdict]]:
    """Return the verdicts of each run, on the goals of its study and on the gates, and print those on the gates."""
    verdicts = []
    for run in results:
        own = judge_gates(run, gates)
        if not quiet:
            print_gates(own, Console(highlight=False))
        verdicts.append([*judge_gates(run, run.study.goals), *own])
    return verdicts


def exit_with_gates(
    verdicts: Sequence[GateVerdict], searches: Sequence[PointSearch] = (), regression: str = ""
) -> None:
    """End the command with the exit code of a gate or search that failed or is not known; return if all passed.

    `regression`: what else got worse, in words.
    """
    failed = [verdict for verdict in verdicts if verdict.outcome == FAILED]
    below = [search for search in searches if search.capacity.status == "below"]
    for missed in (*(_sentence(verdict) for verdict in failed if not verdict.gate.is_relative), *map(sentence, below)):
        fail(f"goal missed: {missed}", Exit.GOAL_MISSED)
    for worse in (*(_sentence(verdict) for verdict in failed if verdict.gate.is_relative), regression):
        if worse:
            fail(f"regression: {worse}", Exit.REGRESSION)
    undecided = [search for search in searches if search.capacity.status == "undecided"]
    not_known = (_sentence(verdict) for verdict in verdicts if verdict.outcome != PASSED)
    for unsure in (*not_known, *map(sentence, undecided)):
        fail(f"inconclusive: {unsure}", Exit.INCONCLUSIVE)


def _sentence(verdict: GateVerdict) -> str:
    return f"{verdict.kind} {verdict.gate.text}; {verdict.subject}: {verdict.words}"
