"""`mqlab plan STUDY`: the points, runs and estimated time of a study."""

import json
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from mqlab.cli.options import JsonOption, OnlyOption
from mqlab.cli.terminal.completion import complete_study
from mqlab.cli.terminal.console import Exit, fail, say, show, show_json, table_of
from mqlab.study import DEFAULT_SCALE, Estimate, Point, StudyError, deprecations, estimate, load_study
from mqlab.study.language.units import format_duration, format_time
from mqlab.study.rounds.switching import common_runs
from mqlab.systems import SYSTEMS

_COLUMNS: Final = (
    "scenario", "point", "destinations", "producers", "consumers", "size", "persistent", "transaction", "send", "batch",
    "rate", "runs", "time",
)  # fmt: skip
# The system that can change settings while it runs.
_SWITCHING: Final = "embedded"
# Column names for a study whose points are all request-reply.
_REQUEST_REPLY: Final = {"producers": "requesters", "consumers": "responders"}


def plan(
    study: Annotated[
        str,
        typer.Argument(help="The name of a study, or the path of its file or folder.", autocompletion=complete_study),
    ],
    scale: Annotated[str, typer.Option(help="quick, standard or full (the study's own length).")] = DEFAULT_SCALE,
    only: OnlyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the points of a study, their runs and the estimated time on one system."""
    try:
        declared = load_study(study)
        points = declared.points(scale, only or ())
    except StudyError as error:
        fail(str(error), Exit.USAGE)
    for sentence in deprecations(points):
        say(f"{declared.id}: {sentence}")
    if as_json:
        about = {"study": declared.id, "title": declared.title, "scale": scale, "budget": declared.budget(scale)}
        show_json({**about, **_document(points)})
        return
    show(_table(points))
    say(f"{declared.id} at scale {scale}: {_load(estimate(points, _live(points)))} on each system.")
    if sentence := _common_runs(points):
        say(sentence)
    say("Set-up and draining take additional time.")
    if budget := declared.budget(scale):
        say(f"All runs end after {format_duration(budget)}, or with the least number, unless --minutes says otherwise.")
    for scenario in declared.scenarios.values():
        if scenario.find is not None:
            say(f"The search for the highest rate of {scenario.name} within {scenario.find} adds some 20 runs a point.")
    for published, system in declared.stand_ins.items():
        say(f"Unless you name a system, {system} replaces {published}.")
    for published, successors in declared.successors.items():
        say(f"If you run it, {' or '.join(successors)} stands for {published}.")


def _table(points: Sequence[Point]) -> Table:
    request_reply = all(point.pattern == "request-reply" for point in points)
    heads = [_REQUEST_REPLY.get(column, column) if request_reply else column for column in _COLUMNS]
    table = table_of(heads, ())
    for point in points:
        expected = estimate([point])
        cells = (
            point.scenario,
            point.name or "-",
            f"{point.destinations} {point.domain}{'s' if point.destinations > 1 else ''}",
            str(point.requesters or point.producers),
            str(point.responders or point.consumers),
            point.bodies,
            "yes" if point.persistent else "no",
            str(point.transaction or "none"),
            point.send,
            str(point.batch),
            point.pace,
            _runs(expected),
            f"{point.messages} messages" if point.messages else _time(expected),
        )
        table.add_row(*map(Text, cells))
    total = estimate(points, _live(points))
    table.add_section()
    table.add_row(
        "total", str(len(points)), *[""] * (len(_COLUMNS) - 4), _runs(total), _time(total) if total.most_seconds else ""
    )
    return table


def _live(points: Sequence[Point]) -> tuple[str, ...]:
    """The settings that the lab switches while the system runs, if a scenario has `switch`."""
    return SYSTEMS[_SWITCHING].live_settings if any(point.switch for point in points) else ()


def _common_runs(points: Sequence[Point]) -> str:
    """How many points share their runs, and what a system that cannot switch takes instead; "" if none do."""
    groups = [group for group in common_runs(points, _live(points)) if len(group) > 1]
    if not groups:
        return ""
    scenarios = ", ".join(dict.fromkeys(group[0].scenario for group in groups))
    return (
        f"{sum(map(len, groups))} points of {scenarios} share {len(groups)} runs a round, in which the lab switches"
        f" {_SWITCHING} between their settings every {format_time(groups[0][0].switch)}; on a system that cannot"
        f" switch, each point has its own: {_load(estimate(points))}."
    )


def _load(expected: Estimate) -> str:
    """Return the estimate as text. For a fixed number of messages only the number of runs is known."""
    fixed = f"up to {expected.fixed_runs} runs with a fixed number of messages" if expected.fixed_runs else ""
    timed = f"{_time(expected)} of load" if expected.most_seconds else ""
    return " and ".join(filter(None, (timed, fixed)))


def _runs(expected: Estimate) -> str:
    return _span(str(expected.least_runs), str(expected.most_runs))


def _time(expected: Estimate) -> str:
    return _span(format_duration(expected.least_seconds), format_duration(expected.most_seconds))


def _span(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _document(points: Sequence[Point]) -> dict[str, object]:
    each = [{**json.loads(point.to_json()), **_estimated(estimate([point]))} for point in points]
    return {"points": each, **_estimated(estimate(points, _live(points))), "separate": _estimated(estimate(points))}


def _estimated(expected: Estimate) -> dict[str, object]:
    return {
        "runs": {"least": expected.least_runs, "most": expected.most_runs},
        "seconds": {"least": round(expected.least_seconds, 3), "most": round(expected.most_seconds, 3)},
    }
